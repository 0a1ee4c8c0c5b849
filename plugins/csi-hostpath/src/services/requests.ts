import type { VolumeCapability } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';

const maxNameBytes = 128;

/** Returns the value of a required field. @throws GrpcError `INVALID_ARGUMENT` if the value is empty, too long or contains a null byte */
export function required(field: string, value: string | undefined): string {
  if (value === undefined || value === '') throw new GrpcError('INVALID_ARGUMENT', `${field} is missing`);
  if (Buffer.byteLength(value) > maxNameBytes && !field.endsWith('path'))
    throw new GrpcError('INVALID_ARGUMENT', `${field} has more than ${maxNameBytes} bytes`);
  if (value.includes('\0')) throw new GrpcError('INVALID_ARGUMENT', `${field} contains a null byte`);
  return value;
}

/** The mount options that the driver accepts for bind mounts. */
export const knownFlags: ReadonlySet<string> = new Set([
  'ro',
  'rw',
  'nodev',
  'dev',
  'noexec',
  'exec',
  'nosuid',
  'suid',
  'noatime',
  'atime',
  'nodiratime',
  'relatime',
]);

/**
 * Returns true if the capabilities require a block device. `shared` means that volumes are accessible from several nodes.
 * @throws GrpcError `INVALID_ARGUMENT` if a capability is not supported
 */
export function isBlock(capabilities: readonly VolumeCapability[] | undefined, shared: boolean): boolean {
  if (capabilities === undefined || capabilities.length === 0) throw new GrpcError('INVALID_ARGUMENT', 'volume_capabilities is missing');
  for (const { block, mount, accessMode } of capabilities) {
    if ((block === undefined) === (mount === undefined))
      throw new GrpcError('INVALID_ARGUMENT', 'a volume capability is either block or mount');
    const mode = accessMode?.mode ?? 'UNKNOWN_MODE';
    if (mode === 'UNKNOWN_MODE') throw new GrpcError('INVALID_ARGUMENT', 'a volume capability has no access_mode');
    if (mode.startsWith('MULTI_NODE') && (!shared || (block !== undefined && mode !== 'MULTI_NODE_READER_ONLY')))
      throw new GrpcError(
        'INVALID_ARGUMENT',
        `${mode} is not supported: ${shared ? 'block devices' : 'the volumes of this driver'} are accessible from one node`,
      );
    const unknown = mount?.mountFlags?.find((flag) => !knownFlags.has(flag));
    if (unknown !== undefined) throw new GrpcError('INVALID_ARGUMENT', `the mount option ${JSON.stringify(unknown)} is not supported`);
  }
  const blocks = capabilities.filter(({ block }) => block !== undefined).length;
  if (blocks !== 0 && blocks !== capabilities.length)
    throw new GrpcError('INVALID_ARGUMENT', 'a volume cannot have both block and mount capabilities');
  return blocks > 0;
}

/** Returns one page of a list, and the token of the next page. A token is an index. @throws GrpcError `ABORTED` if the token is invalid */
export function page<T>(
  all: readonly T[],
  maxEntries: number,
  token: string,
): { readonly items: readonly T[]; readonly nextToken: string } {
  if (maxEntries < 0) throw new GrpcError('INVALID_ARGUMENT', `max_entries ${maxEntries} is negative`);
  const from = token === '' ? 0 : Number(token);
  if (!Number.isInteger(from) || from < 0 || from > all.length || (token !== '' && !/^\d{1,9}$/.test(token)))
    throw new GrpcError('ABORTED', `starting_token ${JSON.stringify(token)} is not a token of this list`);
  const to = maxEntries === 0 ? all.length : Math.min(all.length, from + maxEntries);
  return { items: all.slice(from, to), nextToken: to < all.length ? String(to) : '' };
}
