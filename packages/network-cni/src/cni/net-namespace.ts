import { statfs } from 'node:fs/promises';

/** Magic numbers of the file systems of namespace files: nsfs, and proc before Linux 3.19 (statfs(2)). */
const namespaceFsTypes = new Set([0x6e73_6673, 0x9fa0]);

/** Returns true if a namespace is mounted at the path. The file exists even after the namespace is unmounted. */
export async function isNamespace(path: string): Promise<boolean> {
  try {
    return namespaceFsTypes.has((await statfs(path)).type);
  } catch {
    return false; // a file that cannot be inspected cannot be entered
  }
}
