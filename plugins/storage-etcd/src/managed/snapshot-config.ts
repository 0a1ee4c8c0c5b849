import { isIP } from 'node:net';
import { z } from 'zod';
import type { SnapshotStoreSettings } from './remote-snapshots.ts';

const retention = z.int().min(1).max(1000);

/** True for URLs whose requests cannot be read on the way: a snapshot has all Secrets of a cluster without encryption. */
function isConfidential(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.pathname !== '/' || url.search !== '' || url.username !== '') return false;
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return url.protocol === 'https:' || (url.protocol === 'http:' && isIP(host) !== 0 && /^(127\.|::1$)/.test(host));
}

/** Settings of an S3-compatible store of copies. */
const s3 = z.strictObject({
  endpoint: z
    .string()
    .refine(isConfidential, 'expected https://host[:port]; http is possible at a loopback address only')
    .default('https://s3.amazonaws.com'),
  bucket: z
    .string()
    .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'expected the name of a bucket: 3 to 63 lowercase letters, digits, dots and hyphens'),
  region: z.string().min(1).default('us-east-1'),
  folder: z
    .string()
    .regex(/^[\w.-]+(\/[\w.-]+)*$/, 'expected a path without slashes at its ends, such as backups/production')
    .optional(),
  credentialsFile: z.string().min(1),
  profile: z.string().min(1).default('default'),
  caFile: z.string().min(1).optional(),
  virtualHost: z.boolean().default(false),
  retention: retention.optional(),
});

/** Settings of the snapshots of a member. */
export const snapshotConfig = z.strictObject({
  intervalHours: z.number().min(0).max(8760).default(12),
  retention: retention.default(5),
  directory: z.string().min(1).optional(),
  s3: s3.optional(),
});
export type SnapshotConfig = z.output<typeof snapshotConfig>;

/** Returns the settings of the store of copies. It keeps as many scheduled snapshots as the disk, by default. */
export const storeOf = ({ retention: onDisk, s3: store }: SnapshotConfig): SnapshotStoreSettings | undefined =>
  store && { ...store, folder: store.folder ?? '', retention: store.retention ?? onDisk };
