/** The maximum number of connections and flows of datagrams in each direction between a node and its host. */
const maxPlaces = 8192;
/** File descriptors of a process that are not those of relayed connections. */
const otherFiles = 512;
/** A relayed connection has a descriptor at each end, and a process relays in both directions. */
const filesPerPlace = 4;

/** Returns how many connections and flows a process relays in each direction, for the text of /proc/self/limits. */
export function placesOf(limits: string): number {
  const [, files] = /^Max open files\s+(\d+)/m.exec(limits) ?? [];
  if (files === undefined) return maxPlaces;
  return Math.min(maxPlaces, Math.max(1, Math.floor((Number(files) - otherFiles) / filesPerPlace)));
}
