import { readFileSync } from 'node:fs';

/** Which ids the user namespace of a process maps: all of the machine, a range, or one. */
export type MappedIds = 'all' | 'range' | 'one';

const allIds = 4_294_967_295;

/** Returns which ids a file such as /proc/self/uid_map maps (user_namespaces(7)). */
export function parseIdMap(text: string): MappedIds {
  const count = text
    .trim()
    .split('\n')
    .reduce((sum, line) => sum + Number(line.trim().split(/\s+/)[2] ?? 0), 0);
  return count >= allIds ? 'all' : count > 1 ? 'range' : 'one';
}

/** Returns which group ids, and with that user ids, the user namespace of this process maps. Systems without user namespaces have all. */
export function mappedIds(): MappedIds {
  try {
    return parseIdMap(readFileSync('/proc/self/gid_map', 'latin1'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'all';
    throw error;
  }
}

/** Returns true if this process may give files to other users: it is root, and not of a user namespace in which root is the only user. */
export const canChangeOwner = (): boolean => process.geteuid?.() === 0 && mappedIds() !== 'one';
