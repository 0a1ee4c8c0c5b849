import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseResult, validateNames, type CniResult } from '@oarlock/network-cni/cni/protocol';
import type { AttachmentKey } from '@oarlock/network-cni/cni/record-files';

/**
 * Returns the result of an ADD that a container runtime ran, from the cache of libcni (`results/NETWORK-CONTAINER-INTERFACE`), or undefined if the cache
 * has none. containerd and CRI-O keep the result there for CHECK and DEL until DEL has succeeded.
 * @throws CniError if the result is malformed; NetworkError if a name is invalid
 */
export async function cachedResult(cacheDir: string, network: string, key: AttachmentKey): Promise<CniResult | undefined> {
  validateNames(key);
  let text: string;
  try {
    text = await readFile(join(cacheDir, 'results', `${network}-${key.containerId}-${key.ifName}`), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  return parseResult('libcni', (JSON.parse(text) as { readonly result?: unknown } | null)?.result);
}
