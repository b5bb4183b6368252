// Quantities in words.

const scaled = (value, step, units) => {
  let place = 0;
  while (value >= step && place < units.length - 1) { value /= step; place++; }
  return (place && value < 100 ? value.toFixed(1) : Math.round(value)) + " " + units[place];
};

export const rate = bytes => scaled(bytes * 8, 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]);
export const size = bytes => scaled(bytes, 1024, ["B", "KiB", "MiB", "GiB"]);
export const number = value => value.toLocaleString("en");
export const percent = share => (share * 100).toFixed(share < 0.1 ? 1 : 0) + " %";

export function time(seconds) {
  if (seconds >= 100) return Math.round(seconds) + " s";
  if (seconds >= 1) return seconds.toFixed(seconds < 10 ? 2 : 1) + " s";
  if (seconds >= 0.001) return (seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0) + " ms";
  return Math.round(seconds * 1e6) + " µs";
}

export function clock(seconds) {
  const [days, hours, minutes] = [seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60].map(Math.floor);
  const parts = days ? [days + " d", hours + " h"] : hours ? [hours + " h", minutes + " min"] : [...(minutes ? [minutes + " min"] : []), Math.floor(seconds % 60) + " s"];
  return parts.join(" ");
}

// Counts by reason: "full 12 · expired 3"; what never was is left out.
export const reasons = counts =>
  Object.entries(counts).filter(([, count]) => count).map(([reason, count]) => reason + " " + number(count)).join(" · ") || "0";

export const sum = counts => Object.values(counts).reduce((all, count) => all + count, 0);
