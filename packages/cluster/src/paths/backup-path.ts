import { failure } from '@oarlock/api/status';
import { Paths } from '@oarlock/spi/paths';
import { Storage, StorageError, type Page } from '@oarlock/spi/storage';
import { z } from 'zod';

/** One page of all stored entries, at one revision. */
export interface BackupPage {
  readonly revision: number;
  /** Entries with their stored values in base64; encrypted values stay encrypted. */
  readonly entries: readonly { readonly key: string; readonly value: string }[];
  readonly more: boolean;
}

export const backupPagePath = '/oarlock/v1/backup';
const pageLimits = { entries: 500, bytes: 4 * 1024 * 1024 };
const query = z.strictObject({ revision: z.coerce.number().int().min(0).optional(), after: z.string().optional() });

/** Returns a page of storage, limited to the maximum size of a response. */
export function backupPage({ entries, revision, more }: Page): BackupPage {
  const encoded: { key: string; value: string }[] = [];
  let bytes = 0;
  for (const { key, value } of entries) {
    bytes += value.length;
    if (encoded.length > 0 && bytes > pageLimits.bytes) return { revision, entries: encoded, more: true };
    encoded.push({ key, value: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64') });
  }
  return { revision, entries: encoded, more };
}

/** `GET /oarlock/v1/backup?revision=R&after=KEY`: serves the pages that `oarlock backup` reads from a running cluster. */
export const backupPath = Paths.plugin({
  id: 'backup',
  config: z.strictObject({}),
  needs: { storage: Storage },
  create: ({ storage }) => ({
    path: backupPagePath,
    methods: ['GET'],
    async handle(request) {
      const parsed = query.safeParse(request.query);
      if (!parsed.success) return { code: 400, body: failure('BadRequest', z.prettifyError(parsed.error)).status };
      const { revision, after } = parsed.data;
      try {
        const page = await storage.range({
          prefix: '',
          limit: pageLimits.entries,
          ...(revision !== undefined && { revision }),
          ...(after !== undefined && { after }),
        });
        return { code: 200, body: backupPage(page) };
      } catch (error) {
        if (!(error instanceof StorageError)) throw error;
        if (error.code === 'Compacted') return { code: 410, body: failure('Expired', error.message).status };
        return { code: 503, body: failure('ServiceUnavailable', error.message).status };
      }
    },
  }),
});
