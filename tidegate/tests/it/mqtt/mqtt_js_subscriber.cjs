// Subscribes with MQTT.js. Usage: node mqtt_js_subscriber.cjs PORT VERSION QOS; the version is 4 or 5.
// Prints the payload of each message on the topic t.

const mqtt = require("mqtt");

const [port, version, qos] = process.argv.slice(2).map(Number);
const client = mqtt.connect({ host: "127.0.0.1", port, protocolVersion: version, reconnectPeriod: 0 });
client.on("connect", () => client.subscribe("t", { qos }));
client.on("message", (topic, payload) => console.log(payload.toString()));
