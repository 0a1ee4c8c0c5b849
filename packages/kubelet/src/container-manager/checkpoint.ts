import { errorText } from '@oarlock/primitives/error-text';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';

/** Reads a checkpoint: the state of a manager that outlives the kubelet. Returns undefined if there is none. @throws Error that names the file */
export async function readCheckpoint<T>(file: string): Promise<T | undefined> {
  try {
    const text = await readIfExists(file);
    return text === undefined ? undefined : (JSON.parse(text) as T);
  } catch (error) {
    throw new Error(`the checkpoint ${file} cannot be read: ${errorText(error)}. Drain the node before you remove a damaged one`, {
      cause: error,
    });
  }
}

/** Writes a checkpoint. Calls for one file must not overlap. @throws Error that names the file */
export const writeCheckpoint = (file: string, state: unknown): Promise<void> =>
  writeAtomic(file, JSON.stringify(state), { temporary: `${file}.new`, sync: true });
