// What each table shows: its rows, and how a column reads a row. A cell is a text, or a text with a mood.

import { clock, number, percent, rate, reasons, size, sum, time } from "/page/words.js";

const column = (label, cell, title) => ({ label, cell, title });
// A word stands at the left; words may also take a line of their own.
const word = (label, cell) => ({ label, cell, kind: "word" });
const words = (label, cell) => ({ label, cell, kind: "text" });
const list = (label, cell, title) => ({ label, cell, title, kind: "list" });
const warn = count => ({ text: number(count), mood: count ? "warn" : "" });
const why = counts => ({ text: reasons(counts), mood: sum(counts) ? "warn" : "" });
const known = (value, words) => value ? words(value) : "–";
const quantile = (times, key) => times.count ? time(times[key]) : "–";
const p99 = (times, bound) => times.count
  ? { text: time(times.p99_seconds), mood: times.p99_seconds <= bound ? "good" : "bad" } : "–";

const copy = own => ({ behind_bytes: own.behind_bytes, ...(own.is_up
  ? { state: "copied to the mirror", mood: "good" } : { state: "the mirror is away: nothing is copied", mood: "bad" }) });
const keeping = kept => kept.is_inherited ? { state: "its node is away: sent from here", mood: "warn" }
  : kept.is_connected ? { state: "kept for its node", mood: "good" } : { state: "its node is not connected", mood: "warn" };

const residence = bound => [
  column("p50, last minute", row => quantile(row.recent, "p50_seconds"), "arrival to last byte on the wire"),
  column("p99, last minute", row => p99(row.recent, bound(row)), "arrival to last byte on the wire"),
  column("violated, last minute", row => warn(row.recent.violated), "deliveries whose bound passed"),
  column("violated", row => warn(row.counts.violated), "since start"),
  list("dropped", row => why(row.counts.dropped), "since start, by reason"),
];

export const tables = [
  {
    id: "classes", title: "Classes, most urgent first", rows: s => s.classes, key: row => row.name,
    columns: [
      column("class", row => row.name),
      column("bound", row => time(row.bound_seconds), "latency bound on residence in the node"),
      column("in", row => rate(row.input_bytes_per_second)),
      column("out", row => rate(row.output_bytes_per_second)),
      column("allocated", row => rate(row.allocated_bytes_per_second), "its part of the uplink"),
      column("queue", row => number(row.backlog_records) + " · " + size(row.backlog_bytes)),
      column("late now", row => warn(row.late_records), "records past their deadline that wait"),
      ...residence(row => row.bound_seconds),
    ],
  },
  {
    id: "streams", title: "Streams", rows: s => s.streams, key: row => row.name,
    columns: [
      column("stream", row => row.name),
      word("class", row => row.class),
      column("bound", row => time(row.bound_seconds)),
      column("in", row => rate(row.input_bytes_per_second)),
      column("confirmed", row => rate(row.output_bytes_per_second)),
      column("held", row => number(row.held_deliveries) + " · " + size(row.held_bytes)),
      ...residence(row => row.bound_seconds),
      column("refused", row => warn(row.counts.refused), "offers, since start"),
    ],
  },
  {
    id: "outputs", title: "Outputs", rows: s => s.outputs, key: row => row.name,
    columns: [
      column("output", row => row.name),
      column("connections up", row => ({ text: row.lanes_up + " of " + row.lanes, mood: row.lanes_up < row.lanes ? "bad" : "good" })),
      column("unconfirmed", row => number(row.unconfirmed_records), "records sent and not confirmed"),
      words("why", row => ({ text: row.trouble || "–", mood: row.trouble ? "bad" : "" })),
      words("confirms", row => row.confirms || "–"),
    ],
  },
  {
    id: "links", title: "Paths of links", key: row => row.key,
    rows: s => (s.links || []).flatMap(link => link.paths.map(path => ({
      ...path, key: link.direction + " " + link.name + " " + path.name,
      link: link.direction === "in" ? "from " + link.name : link.name,
    }))),
    columns: [
      column("link", row => row.link),
      word("path", row => row.name),
      word("state", row => ({ text: row.state, mood: row.state === "up" ? "good" : "bad" })),
      word("by", row => row.transport || "–"),
      column("rate", row => known(row.rate_bytes_per_second, rate)),
      column("round trip", row => known(row.rtt_seconds, time)),
      column("queue", row => known(row.queue_delay_seconds, time), "on the way to the far end"),
      column("loss", row => percent(row.loss)),
      column("marked", row => known(row.marked_packets, number), "packets that a queue on the way marked (ECN), since the link began"),
      column("share", row => percent(row.share), "of all bytes that the link has sent"),
    ],
  },
  {
    id: "fleet", title: "Fleet: grants in force", rows: s => s.fleet ? s.fleet.grants : [], isShown: s => !!s.fleet,
    key: row => row.direction + " " + row.class + " " + row.peer,
    note: s => {
      const f = s.fleet;
      return (f.has_leader ? "An orchestrator leads. " : "No orchestrator leads: the node goes on alone. ") +
        "Neighbours up: " + number(f.peers_up) + " of " + number(f.peers) + ". Lent: " + rate(f.lent_bytes_per_second) +
        ". Borrowed: " + rate(f.borrowed_bytes_per_second) + ". Since start, by neighbours: " +
        number(f.redirected_records) + " records, " + size(f.redirected_bytes) + "; for neighbours: " +
        size(f.relayed_bytes) + ".";
    },
    columns: [
      column("neighbour", row => row.peer),
      word("direction", row => row.direction === "lent" ? "lent to it" : "borrowed from it"),
      word("class", row => row.class),
      column("rate", row => rate(row.bytes_per_second), "what of the uplink may be used now"),
    ],
  },
  {
    id: "mirror", title: "Mirrors", key: row => row.key,
    rows: s => !s.mirror ? [] : [
      ...(s.mirror.own ? [{ key: "own", log: "this node's log", incarnation: s.incarnation, ...copy(s.mirror.own) }] : []),
      ...s.mirror.kept.map(kept => ({ ...kept, key: kept.node + " " + kept.incarnation, log: "log of " + kept.node, ...keeping(kept) })),
    ],
    columns: [
      column("log", row => row.log),
      words("state", row => ({ text: row.state, mood: row.mood })),
      column("not copied yet", row => row.behind_bytes === undefined || row.behind_bytes === null ? "–" : size(row.behind_bytes), "bytes of this node's log that its mirror does not have safe"),
      column("kept here", row => row.bytes === undefined ? "–" : size(row.bytes)),
      column("taken over", row => row.inherited_records === undefined ? "–" : number(row.inherited_records), "records of it that this node sends, or has sent"),
      words("incarnation", row => row.incarnation),
    ],
  },
  {
    id: "placed", title: "Placed topics", rows: s => s.placed || [], key: row => row.name,
    columns: [
      column("topics", row => row.name),
      words("owner", row => row.owner),
      column("here", row => row.is_open ? { text: "open", mood: "good" } : "–", "open: this node owns them and takes their records"),
      column("moves", row => number(row.epoch), "how often they have moved"),
    ],
  },
  {
    id: "clients", title: "MQTT clients", rows: s => s.broker ? s.broker.clients : [], isShown: s => !!s.broker,
    key: row => row.client,
    note: s => {
      const b = s.broker;
      const others = b.connected_clients + b.kept_sessions - b.clients.length;
      return "Connected: " + number(b.connected_clients) + ". Sessions kept: " + number(b.kept_sessions) +
        ". Subscriptions: " + number(b.subscriptions) + ". Messages: " + number(b.published_messages) + " published, " +
        number(b.delivered_messages) + " delivered, " + number(b.waiting_messages) + " wait, dropped: " +
        reasons(b.dropped_messages) + ". Retained: " + number(b.retained_messages) + ", " + size(b.retained_bytes) +
        ". Held for clients: " + size(b.reserved_bytes) + " of " + size(b.reserved_max_bytes) + "." +
        (others > 0 ? " Of the clients those are shown for which most waits; " + number(others) + " more are not." : "");
    },
    columns: [
      column("client", row => row.client),
      words("user or address", row => row.user),
      word("state", row => ({ text: row.is_connected ? "connected" : "away", mood: row.is_connected ? "good" : "" })),
      column("subscriptions", row => number(row.subscriptions)),
      column("wait", row => number(row.waiting_messages), "messages that wait for it"),
      column("unacknowledged", row => number(row.unacknowledged_messages)),
    ],
  },
  {
    id: "operators", title: "Operators", rows: s => s.operators || [], key: row => row.operator + " " + row.topic,
    columns: [
      column("operator", row => row.operator),
      words("topic", row => row.topic),
      column("bound", row => time(row.bound_seconds)),
      column("records/s", row => row.records_per_second.toFixed(1)),
      column("wait", row => number(row.waiting_records), "records that wait or are worked on"),
      column("processor", row => time(row.cpu_mean_seconds), "mean time of a record"),
      column("wait p90", row => quantile(row.wait, "p90_seconds"), "since start"),
      column("delivery p99", row => p99(row.delivery, row.bound_seconds), "publish to subscriber, since start"),
      column("violated", row => warn(row.violated), "since start"),
      list("dropped", row => why(row.dropped), "since start, by reason"),
      list("failed", row => why(row.failed), "input that a step could not use, since start"),
    ],
  },
  {
    id: "cameras", title: "Cameras", rows: s => s.frames ? s.frames.cameras : [], key: row => row.name,
    note: s => "Subscriptions here: " + number(s.frames.subscriptions) + ". Frames that came for them: " +
      number(s.frames.arrived_frames) + ", late " + number(s.frames.late_frames) + ", skipped " +
      number(s.frames.skipped_frames) + ", broken " + number(s.frames.broken_frames) + ".",
    columns: [
      column("camera", row => row.name),
      column("frames/s", row => row.frames_per_second.toFixed(1)),
      column("taken", row => number(row.taken_frames)),
      column("refused", row => warn(row.refused_frames)),
      column("not stored", row => warn(row.unstored_frames)),
      column("encodings", row => number(row.encoded_frames)),
      column("sent", row => size(row.sent_bytes)),
      words("frames of subscribers", row => reasons(row.results)),
    ],
  },
  {
    id: "log", title: "Log", rows: s => s.log ? [s.log] : [], key: () => "log",
    columns: [
      column("state", row => row.is_working ? { text: "working", mood: "good" } : { text: "refuses", mood: "bad" }),
      column("size", row => size(row.bytes) + " of " + size(row.bound_bytes)),
      column("segments", row => number(row.segments)),
      column("records", row => number(row.held_records), "without a fate"),
      column("only on disk", row => number(row.left_deliveries), "deliveries that memory does not hold"),
      column("commit p50", row => quantile(row.commit, "p50_seconds"), "write and sync, since start"),
      column("commit p99", row => quantile(row.commit, "p99_seconds"), "write and sync, since start"),
      column("failed commits", row => warn(row.failed_commits)),
      column("damaged places", row => warn(row.damaged_ranges), "met by the start"),
    ],
  },
  {
    id: "scripts", title: "Scripts", rows: s => s.scripts || [], key: row => row.name,
    columns: [
      column("script", row => row.name),
      word("state", row => row.is_on ? { text: "on", mood: "good" } : { text: "off", mood: "bad" }),
      column("calls", row => number(row.runs)),
      column("time a call", row => row.runs ? time(row.run_seconds / row.runs) : "–"),
      column("failed", row => warn(row.failed_runs)),
      column("left out", row => warn(row.unadapted_runs), "calls while it was off"),
      words("verdicts", row => reasons(row.verdicts)),
    ],
  },
];

// What a person should look at first.
export function troubles(s) {
  const all = [];
  if (s.lost_deliveries) all.push(number(s.lost_deliveries) + " deliveries are lost: a mistake of Tidegate, please report it");
  for (const o of s.outputs) {
    if (o.trouble) all.push("Output " + o.name + (o.lanes_up ? " has a problem: " : " is down: ") + o.trouble);
  }
  if (s.fleet && !s.fleet.has_leader) all.push("No orchestrator leads: the node goes on alone");
  if (s.mirror?.own && !s.mirror.own.is_up) all.push("The mirror is away: what comes into the log is on this machine only");
  if (s.log && !s.log.is_working) all.push("The log takes nothing: durable records are refused");
  return all;
}

export function cards(s) {
  return [
    // Where no network is below, there is nothing to tell.
    ...s.uplinks.filter(u => u.capacity_bytes_per_second || u.rtt_seconds).map(u => ({
      name: u.name === "uplink" ? "Uplink" : "Uplink " + u.name, value: known(u.capacity_bytes_per_second, rate),
      note: u.rtt_seconds === null ? "no round trip measured" : "round trip " + time(u.rtt_seconds),
    })),
    { name: "Held", value: size(s.held_bytes), note: "of " + size(s.memory_bytes), share: s.held_bytes / s.memory_bytes },
    { name: "Confirmed", value: number(s.counts.confirmed), note: "of " + number(s.counts.accepted) + " accepted" },
    { name: "Lost", value: number(s.lost_deliveries), note: "accepted − confirmed − dropped − held", mood: s.lost_deliveries ? "bad" : "good" },
  ];
}

export const uptime = s => "up " + clock(s.uptime_seconds);
