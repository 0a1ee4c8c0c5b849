import { storageRoot } from '../storage/storage-root.ts';

/** The prefix of the storage keys of running API servers, as upstream's. The key of a server expires soon after the server stops renewing it. */
export const serverLeaseRoot = `${storageRoot}masterleases/`;

/** The value of the storage key of a running API server. Earlier versions wrote no port. */
export interface ServerLease {
  readonly port?: number;
}

/** Returns the URL of a running API server; undefined if the entry has no port. */
export function serverLeaseUrl({ key, value }: { readonly key: string; readonly value: Uint8Array }): string | undefined {
  const { port } = JSON.parse(Buffer.from(value).toString('utf8')) as ServerLease;
  const address = key.slice(serverLeaseRoot.length);
  return port === undefined ? undefined : `https://${address.includes(':') ? `[${address}]` : address}:${port}`;
}
