#!/bin/sh
# Writes a shared access signature for Azure IoT Hub: azure-sas.sh RESOURCE KEY-FILE SECONDS
# RESOURCE is HUB.azure-devices.net/devices/DEVICE, KEY-FILE holds the device's key in base64. Needs openssl and od.
set -eu
encoded() { printf %s "$1" | sed 's/%/%25/g; s/+/%2B/g; s,/,%2F,g; s/=/%3D/g'; }
resource=$(encoded "$1")
ends=$(($(date +%s) + $3))
key=$(openssl base64 -d -A <"$2" | od -An -v -tx1 | tr -d ' \n')
signature=$(printf '%s\n%s' "$resource" "$ends" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | openssl base64 -A)
printf 'SharedAccessSignature sr=%s&sig=%s&se=%s\n' "$resource" "$(encoded "$signature")" "$ends"
