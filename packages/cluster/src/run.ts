import { join } from 'node:path';
import { EventWriter } from '@oarlock/client/events';
import { SharedInformers } from '@oarlock/client/informers';
import type { HttpClient } from '@oarlock/client/http-client';
import { loopbackClient, LoopbackSwitchboard } from '@oarlock/client/loopback-client';
import { systemClock, type Clock } from '@oarlock/kernel/clock';
import { WiringError } from '@oarlock/kernel/errors';
import type { Identity } from '@oarlock/spi/authn';
import type { Client } from '@oarlock/spi/client';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import type { Logger } from '@oarlock/kernel/logger';
import type { RecordedSpan } from '@oarlock/spi/spans';
import { openTracing } from '@oarlock/tracing/tracing';
import { compose, type Access, type ComposeOptions, type Composition } from './compose.ts';
import { freePort } from './addresses.ts';
import type { ClusterFile } from './cluster-file.ts';
import { writeAtomic } from './files.ts';
import { kubeconfig } from './kubeconfig.ts';
import { openKeys } from './keys.ts';
import { openLog } from './log.ts';
import { NodeCertificates } from './node-certificates.ts';
import { ownAccounts } from './own-accounts.ts';
import { apiServer, asParts, type Part, type PartAccess } from './parts.ts';
import { adminKubeconfig, DataDirLock, logFile } from './process-state.ts';
import { unknownNames } from './named-in-settings.ts';
import { missingRuntime, plan, type Plan } from './plan.ts';
import { spanForwarding } from './span-forwarding.ts';

export interface RunOptions extends Omit<ComposeOptions, 'log' | 'tracer'> {
  readonly file: ClusterFile;
  /** For a process without an API server: how to reach one, and the keys it may use. */
  readonly remote?: {
    readonly client: Client & Partial<Pick<HttpClient, 'renew'>>;
    readonly server: string;
    readonly keys: ClusterKeys;
    /** As a part of this process. Absent: all parts ask alike. */
    as?(part: Part, ownAccount: boolean): Client;
  };
  readonly signal?: AbortSignal;
  /** Is told of every span that ends in this process. */
  readonly observe?: (span: RecordedSpan) => void;
}

export interface Running {
  readonly plan: Plan;
  readonly composition: Composition;
  readonly server: string;
  /** Milliseconds from the call to ready. */
  readonly startedInMs: number;
  /** A client of the API server in this process, as somebody whom nobody asks who they are. */
  clientAs(identity: Identity): Client;
  stop(): Promise<void>;
}

const issuerOf = (domain: string) => `https://kubernetes.default.svc.${domain}`;

/** Starts what a cluster file describes and returns when all of its roles are ready. @throws WiringError; nothing is left running then */
export async function run(options: RunOptions): Promise<Running> {
  const began = performance.now();
  const clock = options.clock ?? systemClock;
  const port = options.port === 0 ? await freePort(options.file.spec.server.address) : options.port;
  const planned = await plan(options.file, {
    ...options,
    ...(port !== undefined && { port }),
    ...(options.remote && { server: options.remote.server }),
  });
  const unknown = unknownNames(planned);
  if (unknown.length > 0) throw new WiringError(unknown);
  const missing = missingRuntime(planned);
  if (missing !== undefined) throw new WiringError([missing]);
  const lock = await DataDirLock.take(options.dataDir, planned.facts.serverUrl, planned.roles);
  const { log, close } = openLog(logFile(options.dataDir), options.file.spec.log.level);
  const undo: (() => Promise<void> | void)[] = [close, () => lock.release()];
  const stop = async () => {
    const failures: unknown[] = [];
    for (const each of undo.splice(0).reverse()) {
      try {
        await each();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  };
  try {
    const signal = options.signal ?? new AbortController().signal;
    const keys = options.remote?.keys ?? (await followedKeys(join(options.dataDir, 'pki'), planned, log, undo));
    const loopback = new LoopbackSwitchboard();
    const client = options.remote?.client ?? loopbackClient(loopback, apiServer.identity, apiServer);
    const { enabled, keep, otlp } = options.file.spec.tracing;
    const tracing = openTracing({
      enabled,
      keep,
      otlp,
      clock,
      log,
      ...(options.observe && { observe: options.observe }),
      ...(options.remote && { forward: spanForwarding(client) }),
    });
    undo.push(() => tracing.flush());
    const informers = new SharedInformers({ client, log, clock });
    const events = new EventWriter({ client, log, clock, random: Math.random });
    undo.push(
      () => informers.stop(),
      () => events.stop(),
    );
    const own = options.remote?.as !== undefined && (await ownAccounts(planned, { client, clock, log, signal, random: Math.random }));
    const access: Access = { keys, client, informers, events, loopback, spans: tracing.store };
    const accessOf = (part: Part): PartAccess => {
      const asking = options.remote?.as?.(part, own) ?? loopbackClient(loopback, part.identity, part);
      const writer = new EventWriter({ client: asking, log, clock, random: Math.random });
      undo.push(() => writer.stop());
      return { client: asking, events: writer };
    };
    const composition = compose(options.remote && options.remote.as === undefined ? planned : asParts(planned, accessOf), access, {
      ...options,
      clock,
      log,
      tracer: (plugin) => tracing.tracer(plugin),
    });
    if (options.remote === undefined) await writeAdminKubeconfig(options.dataDir, planned, keys);
    informers.start();
    undo.push(() => composition.stop());
    await composition.start(signal);
    await Promise.all(composition.roles().map((role) => role.ready?.(signal)));
    await renewCertificates(options, planned, { clock, log, undo });
    await lock.ready();
    log.info({ roles: planned.roles, ms: Math.round(performance.now() - began) }, 'ready');
    return {
      plan: planned,
      composition,
      server: planned.facts.serverUrl,
      startedInMs: performance.now() - began,
      clientAs: (identity) => loopbackClient(loopback, identity),
      stop,
    };
  } catch (error) {
    if (options.signal?.aborted === true) log.info({}, 'stopped before it was ready');
    else log.error({ err: error }, 'could not start');
    await stop();
    throw error;
  }
}

/** A node that joined looks after its own certificates. */
async function renewCertificates(
  { joined, remote }: RunOptions,
  { nodeName }: Plan,
  { clock, log, undo }: { readonly clock: Clock; readonly log: Logger; readonly undo: (() => Promise<void> | void)[] },
): Promise<void> {
  if (joined?.kubeconfigFile === undefined || remote === undefined) return;
  const { certificateFile, keyFile, kubeconfigFile } = joined;
  const { client } = remote;
  const renewed = (shown: { readonly cert?: string; readonly key?: string; readonly ca?: string }) => client.renew?.(shown);
  const certificates = new NodeCertificates({ nodeName, certificateFile, keyFile, kubeconfigFile, client, renewed, clock, log });
  await certificates.start();
  undo.push(() => certificates.stop());
}

/** The keys of this data directory. Keys that sign tokens are taken up when their files change. */
async function followedKeys(directory: string, { facts }: Plan, log: Logger, undo: (() => void)[]): Promise<ClusterKeys> {
  const files = await openKeys(directory, issuerOf(facts.domain));
  const following = new AbortController();
  undo.push(() => following.abort());
  files.follow(following.signal, (error) => log.error({ err: error }, 'the keys of service account tokens could not be read'));
  return files.keys;
}

async function writeAdminKubeconfig(dataDir: string, { facts }: Plan, keys: ClusterKeys): Promise<void> {
  const client = await keys.issue({ commonName: 'kubernetes-admin', organizations: ['system:masters'], usages: ['client'] });
  await writeAtomic(
    adminKubeconfig(dataDir),
    kubeconfig({ cluster: facts.name, server: facts.serverUrl, ca: keys.caBundle, user: 'admin', client }),
  );
}
