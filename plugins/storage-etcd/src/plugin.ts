import { available, unavailable, type Availability } from '@oarlock/kernel/plugin';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { Storage } from '@oarlock/spi/storage';
import { StorageServer } from '@oarlock/spi/storage-server';
import { Gauge, type Registry } from 'prom-client';
import { z } from 'zod';
import { probeEndpoints } from './client/endpoint-probe.ts';
import { defaults, EtcdStorage } from './etcd-storage.ts';
import { ManagedEtcdStorage, type ManagedEtcdOptions } from './managed-etcd-storage.ts';
import { etcdVersion } from './managed/member-program.ts';
import { snapshotConfig, storeOf } from './managed/snapshot-config.ts';

const mebibyte = 1024 * 1024;
const endpoint = z.string().refine((text) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && /^https?:$/.test(url.protocol) && url.pathname === '/' && url.search === '' && url.username === '';
}, 'expected http://host:port or https://host:port');

const defaultEndpoints = ['http://127.0.0.1:2379'];
const port = z.int().min(1).max(65_535);

/** Settings of a member that Oarlock runs. `true` stands for all defaults. */
const managed = z.preprocess(
  (value) => (value === true ? {} : value),
  z.strictObject({
    program: z.string().min(1).default('etcd'),
    clientPort: port.default(2379),
    peerPort: port.default(2380),
    quotaBytes: z
      .int()
      .min(16 * mebibyte)
      .default(2048 * mebibyte),
    snapshots: snapshotConfig.prefault({}),
    defragmentHour: z.int().min(0).max(23).nullable().default(3),
  }),
);
type Managed = z.output<typeof managed>;

const config = z
  .strictObject({
    managed: z.union([z.literal(false), managed]).default(false),
    endpoints: z.array(endpoint).min(1).default(defaultEndpoints),
    caFile: z.string().min(1).optional(),
    certFile: z.string().min(1).optional(),
    keyFile: z.string().min(1).optional(),
    prefix: z
      .string()
      .regex(/^(\/[^/]+)+$/, 'expected a path without a slash at its end, such as /oarlock')
      .default(defaults.prefix),
    requestTimeoutSeconds: z.number().min(1).max(120).default(defaults.requestTimeoutSeconds),
    keepaliveSeconds: z.number().min(10).default(defaults.keepaliveSeconds),
    dialTimeoutSeconds: z.number().min(0.1).max(30).default(defaults.dialTimeoutSeconds),
    maxRequestBytes: z
      .int()
      .min(1.5 * mebibyte)
      .default(defaults.maxRequestBytes),
    watchChanges: z.int().min(1_000).default(defaults.watchChanges),
    watchBytes: z.int().min(mebibyte).default(defaults.watchBytes),
  })
  .superRefine(({ managed: own, endpoints, caFile, certFile, keyFile }, { addIssue }) => {
    if (own !== false) {
      const explicit = { endpoints: endpoints.join() === defaultEndpoints.join() ? undefined : endpoints, caFile, certFile, keyFile };
      for (const [key, value] of Object.entries(explicit))
        if (value !== undefined)
          addIssue({
            code: 'custom',
            path: [key],
            message: 'not possible with managed: the members and their certificates follow from it',
          });
      return;
    }
    if ((certFile === undefined) !== (keyFile === undefined))
      addIssue({
        code: 'custom',
        path: [certFile === undefined ? 'certFile' : 'keyFile'],
        message: 'expected certFile and keyFile together',
      });
    const plain = endpoints.findIndex((url) => url.startsWith('http:'));
    if (plain >= 0 && (caFile ?? certFile) !== undefined)
      addIssue({
        code: 'custom',
        path: ['endpoints', plain],
        message: 'expected https: TLS files are configured, which a plain connection does not use',
      });
  });

export default Storage.plugin({
  id: 'storage-etcd',
  declares: { durable: true, shared: true },
  config,
  needs: { server: { optional: StorageServer } },
  probe: ({ managed: own, endpoints, caFile, certFile, keyFile }) =>
    own === false ? probeEndpoints({ endpoints, ...defined({ caFile, certFile, keyFile }) }) : probeProgram(own),
  create({ config: { managed: own, endpoints, caFile, certFile, keyFile, ...settings }, server }, { clock, log, metrics, dataDir }) {
    if (own !== false) {
      const storage = managedStorage(own, { settings, server, clock, log, dataDir });
      addMetrics(storage, metrics);
      addMemberMetrics(storage, metrics);
      return storage;
    }
    const storage = new EtcdStorage({ ...settings, endpoints, ...defined({ caFile, certFile, keyFile }), clock, log });
    addMetrics(storage, metrics);
    return storage;
  },
});

const probeProgram = async ({ program }: Managed): Promise<Availability> => {
  if (process.platform !== 'linux') return unavailable('managed etcd needs Linux');
  return etcdVersion(program, systemClock).then(
    () => available,
    (error: Error) => unavailable(error.message),
  );
};

interface ManagedContext {
  readonly settings: Omit<
    ManagedEtcdOptions,
    'server' | 'directory' | 'member' | 'maintenance' | 'snapshotDirectory' | 's3' | 'clock' | 'log'
  >;
  readonly server: StorageServer | undefined;
  readonly clock: Clock;
  readonly log: Logger;
  readonly dataDir: string;
}

function managedStorage(
  { program, clientPort, peerPort, quotaBytes, snapshots, defragmentHour }: Managed,
  { settings, server, clock, log, dataDir }: ManagedContext,
): ManagedEtcdStorage {
  if (server === undefined) throw new Error('managed etcd needs a server: only `oarlock up` and `oarlock server join` run members');
  return new ManagedEtcdStorage({
    ...settings,
    server,
    directory: dataDir,
    member: { program, clientPort, peerPort, quotaBytes },
    maintenance: { snapshotHours: snapshots.intervalHours, retention: snapshots.retention, defragmentHour: defragmentHour ?? undefined },
    snapshotDirectory: snapshots.directory,
    s3: storeOf(snapshots),
    clock,
    log,
  });
}

/** Adds a gauge of a value, which is absent while the value is undefined. */
type AddGauge = (name: string, help: string, value: () => number | undefined) => void;
const gauges =
  (registry: Registry): AddGauge =>
  (name, help, value) => {
    new Gauge({
      name: `oarlock_storage_etcd_${name}`,
      help,
      registers: [registry],
      collect() {
        const current = value();
        if (current === undefined) this.remove();
        else this.set(current);
      },
    });
  };
/** Returns a time in seconds for a time in milliseconds; undefined if there is none. */
const seconds = (timeMs: number | undefined): number | undefined => (timeMs ? timeMs / 1000 : undefined);

function addMemberMetrics(storage: ManagedEtcdStorage, metrics: Registry): void {
  const gauge = gauges(metrics);
  gauge('member_restarts', "Number of restarts of this server's member after an unexpected end.", () => storage.restarts);
  gauge('member_up', "1 if the program of this server's member runs.", () => (storage.memberFailure === undefined ? 1 : 0));
  gauge('snapshot_failures', 'Number of failed scheduled snapshots.', () => storage.maintenance.snapshotFailures);
  gauge('last_snapshot_timestamp_seconds', 'Time of the last scheduled snapshot.', () => seconds(storage.maintenance.lastSnapshotAt));
  gauge('upload_failures', 'Number of failed uploads of scheduled snapshots.', () => storage.maintenance.uploadFailures);
  gauge('last_uploaded_snapshot_timestamp_seconds', 'Time of the last scheduled snapshot that the store of copies has.', () =>
    seconds(storage.maintenance.lastUploadedAt),
  );
}

function addMetrics(storage: EtcdStorage, metrics: Registry): void {
  const gauge = gauges(metrics);
  gauge('calls', 'Number of calls since the start.', () => storage.stats.calls);
  gauge('watches', 'Open watches.', () => storage.stats.watches);
  gauge('feeds', 'Number of watches in etcd that serve the open watches.', () => storage.stats.feeds);
  gauge('database_bytes', 'Database size of the connected member in bytes.', () => storage.stats.member.bytes);
  gauge('database_in_use_bytes', 'Used part of the database in bytes.', () => storage.stats.member.bytesInUse);
  gauge('defragment_advised', '1 if defragmenting is recommended.', () => (storage.stats.member.defragment ? 1 : 0));
  gauge('alarms', 'Number of alarms of the connected member, such as NOSPACE.', () => storage.stats.member.alarms.length);
  new Gauge({
    name: 'apiserver_storage_size_bytes',
    help: 'Bytes that the storage takes on its disk.',
    labelNames: ['storage_cluster_id'],
    registers: [metrics],
    collect() {
      this.set({ storage_cluster_id: 'etcd-0' }, storage.stats.member.bytes);
    },
  });
}

/** Removes keys whose value is undefined. */
function defined<T extends Readonly<Record<string, string | undefined>>>(values: T): { readonly [K in keyof T]?: string } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as { readonly [K in keyof T]?: string };
}
