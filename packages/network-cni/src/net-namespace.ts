import { statfs } from 'node:fs/promises';

/** Of the file systems that namespaces are files of: nsfs, and proc before Linux 3.19 (statfs(2)). */
const types = new Set([0x6e73_6673, 0x9fa0]);

/** Whether there is a namespace at the path. A file that one was mounted on stays when it is gone. */
export async function isNamespace(path: string): Promise<boolean> {
  try {
    return types.has((await statfs(path)).type);
  } catch {
    return false; // what cannot be looked at cannot be entered
  }
}
