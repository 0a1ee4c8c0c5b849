import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { KeyPair } from '@oarlock/spi/cluster';

export interface ServingAddressOptions {
  readonly nodeName: string;
  /** The current address of the machine. */
  readonly address: string;
  readonly certificateFile: string;
  readonly keyFile: string;
  /** Requests a serving certificate for names and addresses. */
  request(names: readonly string[]): Promise<KeyPair>;
}

/**
 * Replaces the serving certificate of a node whose machine has another address than when it joined, as with DHCP: the API server rejects a kubelet whose
 * certificate is for another address. Returns true if the certificate was replaced.
 */
export async function updateServingAddress({
  nodeName,
  address,
  certificateFile,
  keyFile,
  request,
}: ServingAddressOptions): Promise<boolean> {
  if (new X509Certificate(await readFile(certificateFile, 'utf8')).checkIP(address) !== undefined) return false;
  const { certificate, key } = await request([nodeName, address]);
  await writeAtomic(keyFile, key, { sync: true });
  await writeAtomic(certificateFile, certificate, { sync: true });
  return true;
}
