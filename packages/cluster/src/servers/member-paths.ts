import { failure } from '@oarlock/api/status';
import type { Plugin } from '@oarlock/kernel/plugin';
import { Paths } from '@oarlock/spi/paths';
import { Storage } from '@oarlock/spi/storage';
import { z } from 'zod';
import { answer, badRequest } from './path-answers.ts';

export const snapshotsPath = '/oarlock/v1/etcd/snapshots';
export const defragmentPath = '/oarlock/v1/etcd/defragment';

const snapshotSchema = z.strictObject({ name: z.string().min(1).max(128).optional() });

/** `GET /oarlock/v1/etcd/snapshots` lists the snapshots on the disk of this server; `POST` writes one. */
export function snapshotsPlugin(): Plugin {
  return Paths.plugin({
    id: 'etcd-snapshots',
    config: z.strictObject({}),
    needs: { storage: Storage },
    create: ({ storage }, { log }) => ({
      path: snapshotsPath,
      methods: ['GET', 'POST'],
      async handle({ method, body, identity }) {
        const { members } = storage;
        if (members === undefined) return { code: 404, body: failure('NotFound', 'the storage of this cluster takes no snapshots').status };
        if (method === 'GET') return answer({ snapshots: await members.listSnapshots() });
        const parsed = snapshotSchema.safeParse(body);
        if (!parsed.success) return badRequest(z.prettifyError(parsed.error));
        const snapshot = await members.saveSnapshot(parsed.data.name);
        log.info({ name: snapshot.name, bytes: snapshot.bytes, by: identity.name }, 'wrote a snapshot');
        return answer(snapshot);
      },
    }),
  });
}

/** The result of a defragmentation. */
export interface Defragmentation {
  /** The names of the members, in the order in which they were defragmented. */
  readonly members: readonly string[];
  /** The names of the members whose alarm about a full space quota was ended. */
  readonly disarmed: readonly string[];
}

/** `POST /oarlock/v1/etcd/defragment` returns free space of the member databases to their disks, and ends alarms about a full space quota. */
export function defragmentPlugin(): Plugin {
  return Paths.plugin({
    id: 'etcd-defragment',
    config: z.strictObject({}),
    needs: { storage: Storage },
    create: ({ storage }, { log }) => ({
      path: defragmentPath,
      methods: ['POST'],
      async handle({ identity }) {
        const { members } = storage;
        if (members === undefined) return { code: 404, body: failure('NotFound', 'the storage of this cluster has no members').status };
        // a member whose database is still full raises the alarm again at the next write
        const result: Defragmentation = { members: await members.defragment(), disarmed: await members.disarm() };
        log.info({ ...result, by: identity.name }, 'defragmented the etcd members');
        return answer(result);
      },
    }),
  });
}
