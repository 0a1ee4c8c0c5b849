import { randomUUID } from 'node:crypto';
import { failure } from '@oarlock/api/status';
import type { Plugin } from '@oarlock/kernel/plugin';
import { Paths, type PathResponse } from '@oarlock/spi/paths';
import { Storage } from '@oarlock/spi/storage';
import { z } from 'zod';
import { LongOperation } from './long-operation.ts';
import { answer, badRequest } from './path-answers.ts';

export const snapshotsPath = '/oarlock/v1/etcd/snapshots';
export const defragmentPath = '/oarlock/v1/etcd/defragment';

const snapshotSchema = z.strictObject({ name: z.string().min(1).max(128).optional() });

/**
 * `GET /oarlock/v1/etcd/snapshots` lists the snapshots on the disk of this server, and their copies; `POST` writes one. A snapshot that takes long is
 * continued in the background: `GET` with `?operation=` returns its result.
 */
export function snapshotsPlugin(): Plugin {
  return Paths.plugin({
    id: 'etcd-snapshots',
    config: z.strictObject({}),
    needs: { storage: Storage },
    create({ storage }, { log, clock }) {
      const saving = new LongOperation(clock, randomUUID);
      return {
        path: snapshotsPath,
        methods: ['GET', 'POST'],
        async handle({ method, query, body, identity }) {
          const { members } = storage;
          if (members === undefined) return notFound('the storage of this cluster takes no snapshots');
          if (query['operation'] !== undefined) return saving.resume(query['operation']);
          if (method === 'GET') return answer(await members.listSnapshots());
          const parsed = snapshotSchema.safeParse(body);
          if (!parsed.success) return badRequest(z.prettifyError(parsed.error));
          return saving.start(async () => {
            const snapshot = await members.saveSnapshot(parsed.data.name);
            log.info({ name: snapshot.name, bytes: snapshot.bytes, by: identity.name }, 'wrote a snapshot');
            return snapshot;
          });
        },
      };
    },
  });
}

/** The result of a defragmentation. */
export interface Defragmentation {
  /** The names of the members, in the order in which they were defragmented. */
  readonly members: readonly string[];
  /** The names of the members whose alarm about a full space quota was ended. */
  readonly disarmed: readonly string[];
}

/**
 * `POST /oarlock/v1/etcd/defragment` returns free space of the member databases to their disks, and ends alarms about a full space quota. A large
 * database takes longer than a request: the work continues in the background, and `GET` with `?operation=` returns its result.
 */
export function defragmentPlugin(): Plugin {
  return Paths.plugin({
    id: 'etcd-defragment',
    config: z.strictObject({}),
    needs: { storage: Storage },
    create({ storage }, { log, clock }) {
      const defragmenting = new LongOperation(clock, randomUUID);
      return {
        path: defragmentPath,
        methods: ['GET', 'POST'],
        async handle({ method, query, identity }) {
          const { members } = storage;
          if (members === undefined) return notFound('the storage of this cluster has no members');
          if (method === 'GET') return defragmenting.resume(query['operation'] ?? '');
          return defragmenting.start(async () => {
            // a member whose database is still full raises the alarm again at the next write
            const result: Defragmentation = { members: await members.defragment(), disarmed: await members.disarm() };
            log.info({ ...result, by: identity.name }, 'defragmented the etcd members');
            return result;
          });
        },
      };
    },
  });
}

const notFound = (message: string): PathResponse => ({ code: 404, body: failure('NotFound', message).status });
