import { join } from 'node:path';
import { EventBroadcaster } from '@oarlock/client/events/event-broadcaster';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import type { ServerList } from '@oarlock/client/http/server-list';
import type { HttpClient } from '@oarlock/client/http/client';
import { loopbackClient, LoopbackTransport } from '@oarlock/client/loopback-client';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import type { Identity } from '@oarlock/spi/authn';
import type { Client } from '@oarlock/spi/client';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import type { Logger } from '@oarlock/primitives/logger';
import type { Health } from '@oarlock/spi/role';
import type { RecordedSpan } from '@oarlock/spi/spans';
import { openTracing } from '@oarlock/tracing/tracing';
import type { Registry } from 'prom-client';
import { compose, type ApiAccess, type ComposeOptions, type Composition } from './composition/compose.ts';
import { certificateDays } from './cluster-file/certificate-validity.ts';
import type { ClusterFile } from './cluster-file/cluster-file.ts';
import { openKeys, type KeyFiles } from './pki/keys.ts';
import { HostAllocation } from './composition/host-allocation.ts';
import { openLog } from './process/log.ts';
import { ProcessCertificates } from './process-certificates.ts';
import { shouldUseServiceAccountCredentials } from './identity/service-account-credentials.ts';
import { apiServer, withComponentIdentities, type Component, type ComponentAccess } from './identity/component.ts';
import { logFile } from './process/process-state.ts';
import { clusterConfigurationOf } from './configuration/cluster-configuration.ts';
import type { Plan, PlannedPlugin } from './composition/plan.ts';
import { openDataDir } from './open-data-dir.ts';
import { guardOwner } from './hosting/guard-process.ts';
import { pluginHealthEvents } from './hosting/plugin-health-events.ts';
import { isolationWarnings, startingParts } from './composition/runtime-reports.ts';
import { planWarnings } from './composition/check-plan.ts';
import { kindWarnings, matchWarnings } from './composition/match-warnings.ts';
import { serverPlugins } from './servers/server-plugins.ts';
import { ProcessStorageServer } from './pki/storage-server.ts';
import { prepareSharedKeys, type SharedKeys } from './servers/shared-keys.ts';
import { publishClusterConfiguration } from './configuration/configuration-publisher.ts';
import { runCleanups, type Cleanup } from './process/cleanups.ts';
import { useServers } from './remote-servers.ts';
import { spanForwarding } from './process/span-forwarding.ts';
import { startLog } from './process/start-log.ts';
import { reportSlowStart } from './process/slow-start.ts';
import { openWorkers, startWorkers } from './workers/start-workers.ts';

export interface RunOptions extends Omit<ComposeOptions, 'log' | 'checkLog' | 'tracer'> {
  readonly file: ClusterFile;
  /** True for the first API server of a cluster whose storage other servers will share. */
  readonly init?: boolean;
  /** Access to the API server of another process. */
  readonly remote?: {
    readonly client: Client & Partial<Pick<HttpClient, 'updateCertificates'>>;
    readonly server: string;
    /** The servers of the client; kept up to date with the cluster. If undefined, the client uses only `server`. */
    readonly servers?: ServerList;
    readonly keys: ClusterKeys;
    /** The metrics of the requests of the clients. Undefined: they are not counted. */
    readonly metrics?: Registry;
    /** Returns the client of one component. If undefined, all components use `client`. */
    asComponent?(component: Component, ownAccount: boolean): Client;
  };
  readonly signal?: AbortSignal;
  /** True if the process runs only this cluster: errors that plugins leave unhandled are then handled here. */
  readonly ownsProcess?: boolean;
  /** Called with each warning for the user as soon as it is known: those about the cluster file before anything starts. */
  readonly onWarning?: (warning: string) => void;
  /** Called for every span that ends in this process. */
  readonly onSpan?: (span: RecordedSpan) => void;
}

export interface RunningCluster {
  readonly plan: Plan;
  readonly composition: Composition;
  readonly server: string;
  /** Milliseconds from the call of `run` until all roles are ready. */
  readonly startedInMs: number;
  /** Warnings for the user about this process, one sentence each, such as pods that run without isolation. */
  readonly warnings: readonly string[];
  /** Returns a client of the API server in this process with any identity; requests are not authenticated. */
  clientAs(identity: Identity): Client;
  stop(): Promise<void>;
}

/** The state that the steps of a start share. Cleanups run in reverse order. */
interface RunContext {
  readonly options: RunOptions;
  readonly planned: Plan;
  readonly clock: Clock;
  readonly log: Logger;
  readonly checkLog: () => Health;
  readonly signal: AbortSignal;
  readonly loopback: LoopbackTransport;
  readonly storageServer: ProcessStorageServer;
  readonly cleanups: Cleanup[];
}

/**
 * The umask of the process. That of the caller does not apply: with 0 files of pods would be writable for every user of a container, with 077 users other
 * than root could not read their Secrets and tokens. Files of the cluster have explicit modes.
 */
const fileModeMask = 0o022;
const issuerOf = (domain: string) => `https://kubernetes.default.svc.${domain}`;

/** Starts the plan of a cluster file and resolves when all roles are ready. @throws WiringError if the start fails; nothing is left running then */
export async function run(options: RunOptions): Promise<RunningCluster> {
  const startedAt = performance.now();
  if (options.ownsProcess === true) process.umask(fileModeMask);
  const allocation = new HostAllocation({ dataDir: options.dataDir, port: options.port, isRemote: options.remote !== undefined });
  const { planned, lock } = await openDataDir(options, allocation).catch((error: unknown) => {
    allocation.release();
    throw error;
  });
  const { log, check: checkLog, close } = openLog(logFile(options.dataDir), options.file.spec.log.level);
  const storageServer = new ProcessStorageServer(planned, options.dataDir);
  const cleanups: Cleanup[] = [() => allocation.release(), close, () => lock.release(), () => storageServer.stop()];
  let composition: Composition | undefined;
  const signal = options.signal ?? new AbortController().signal;
  const { drainSeconds } = options.file.spec.settings.apiserver;
  const hosted = () => composition?.host.plugins ?? [];
  const stop = () => runCleanups(cleanups);
  const warnings: string[] = [];
  const warn = (more: readonly string[]) => {
    warnings.push(...more);
    for (const warning of more) {
      log.warn({}, warning);
      options.onWarning?.(warning);
    }
  };
  try {
    const guard = { planned: planned.plugins, hosted, log, signal, drainSeconds, dataDir: options.dataDir, cleanups };
    const reportPreviousEnd = options.ownsProcess === true ? await guardOwner(guard) : () => [];
    warn(planWarnings(planned));
    const loopback = new LoopbackTransport();
    const clock = options.clock ?? systemClock;
    const context: RunContext = { options, planned, clock, log, checkLog, signal, loopback, storageServer, cleanups };
    const start = startComposition(context, (composed) => {
      composition = composed;
    });
    composition = await reportSlowStart(start, { clock, parts: () => startingParts(composition), warn: (warning) => warn([warning]) });
    const server = options.remote?.servers?.preferred ?? planned.facts.serverUrl;
    await lock.ready(server);
    const running = composition;
    const ofPlugins = await Promise.all([isolationWarnings, matchWarnings, kindWarnings].map((check) => check(running)));
    warn([...reportPreviousEnd(), ...allocation.notices, ...ofPlugins.flat()]);
    log.info({ roles: planned.roles, ms: Math.round(performance.now() - startedAt) }, 'ready');
    return {
      plan: planned,
      composition,
      server,
      startedInMs: performance.now() - startedAt,
      warnings,
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

/** Creates keys, clients, informers and tracing, then the plugins, and waits until the roles are ready. */
async function startComposition(context: RunContext, onComposed: (composition: Composition) => void): Promise<Composition> {
  const { options, planned, clock, log, checkLog, signal, loopback, storageServer, cleanups } = context;
  const shared = await prepareKeys(context);
  const keyFiles =
    options.remote === undefined ? await openKeyFiles(join(options.dataDir, 'pki'), context, shared !== undefined) : undefined;
  const keys = options.remote?.keys ?? (keyFiles as KeyFiles).keys;
  const client = options.remote?.client ?? loopbackClient(loopback, apiServer.identity, apiServer);
  const tracing = startTracing(context, client);
  const informers = new SharedInformerFactory({ client, log, clock });
  const events = new EventBroadcaster({ client, log, clock, random: Math.random });
  cleanups.push(
    () => informers.stop(),
    () => events.stop(),
  );
  const access: ApiAccess = { keys, client, informers, events, loopback, spans: tracing.store };
  const certificates = new ProcessCertificates({ dataDir: options.dataDir, plan: planned, keyFiles, storageServer, events, clock, log });
  cleanups.push(() => certificates.stop());
  const identified = await planWithIdentities(context, client);
  // `oarlock dev` replaces plugins in this process
  const workers = options.mapPlugin === undefined ? openWorkers(planned, { clock, log }) : undefined;
  const composition = compose(withServerPlugins(identified, { shared, keyFiles, dataDir: options.dataDir }), access, {
    ...options,
    clock,
    log,
    checkLog,
    tracer: (plugin) => tracing.tracer(plugin),
    onHealthChange: pluginHealthEvents(events, planned.nodeName),
    certificateMetrics: certificates.metrics,
    clientMetrics: options.remote?.metrics,
    ...(options.remote === undefined && { storageServer }),
    ...(workers && { workers }),
  });
  onComposed(composition);
  await certificates.keepAdminKubeconfig();
  if (options.remote?.servers !== undefined) await useServers(options.remote.servers, { ...context, ...options, client, informers });
  informers.start();
  cleanups.push(() => composition.stop());
  await composition.start(signal);
  await Promise.all(composition.roles().map((role) => role.waitUntilReady?.(signal)));
  if (workers !== undefined) {
    cleanups.push(() => workers.stop());
    await startWorkers({ pool: workers, composition, dataDir: options.dataDir });
  }
  if (options.remote === undefined) {
    const configuration = clusterConfigurationOf(planned.file, planned.facts);
    cleanups.push(publishClusterConfiguration({ client, configuration, clock, log }));
  }
  await keepCertificates(certificates, options);
  return composition;
}

async function keepCertificates(certificates: ProcessCertificates, { joined, remote }: RunOptions): Promise<void> {
  if (joined !== undefined && remote !== undefined)
    await certificates.keepNodeCertificates({
      joined,
      client: remote.client,
      servers: () => remote.servers?.servers ?? [remote.server],
    });
  await certificates.monitor();
}

function startTracing({ options, clock, log, cleanups }: RunContext, client: Client): ReturnType<typeof openTracing> {
  const { enabled, keep, otlp } = options.file.spec.tracing;
  const tracing = openTracing({
    enabled,
    keep,
    otlp,
    clock,
    log,
    ...(options.onSpan && { observe: options.onSpan }),
    ...(options.remote && { forward: spanForwarding(client) }),
  });
  cleanups.push(() => tracing.flush());
  return tracing;
}

/** Gives each component of the process a client with its own identity, unless a remote client has only one. */
async function planWithIdentities({ options, planned, clock, log, signal, loopback, cleanups }: RunContext, client: Client): Promise<Plan> {
  const { remote } = options;
  if (remote !== undefined && remote.asComponent === undefined) return planned;
  const ownAccounts =
    remote !== undefined && (await shouldUseServiceAccountCredentials(planned, { client, clock, log, signal, random: Math.random }));
  return withComponentIdentities(planned, (component): ComponentAccess => {
    const componentClient = remote?.asComponent?.(component, ownAccounts) ?? loopbackClient(loopback, component.identity, component);
    const events = new EventBroadcaster({ client: componentClient, log, clock, random: Math.random });
    cleanups.push(() => events.stop());
    return { client: componentClient, events };
  });
}

/** Makes the keys of the data directory those of the cluster, if the storage can be shared. */
function prepareKeys({ options: { dataDir, init, onWarning }, planned: plan, storageServer, clock, log, signal }: RunContext) {
  const { issuer = issuerOf(plan.facts.domain) } = plan.file.spec.serviceAccountTokens;
  const place = { plan, dataDir, storageServer, issuer, ...(init !== undefined && { init }) };
  return prepareSharedKeys({ ...place, now: clock.now(), log: onWarning === undefined ? log : startLog(log, onWarning), signal });
}

/** Adds the plugins of a server whose storage other servers share. */
function withServerPlugins(
  plan: Plan,
  { shared, keyFiles, dataDir }: { readonly shared: SharedKeys | undefined; readonly keyFiles: KeyFiles | undefined; dataDir: string },
): Plan {
  if (shared === undefined || keyFiles === undefined) return plan;
  const { keys, reload } = keyFiles;
  const plugins = serverPlugins({ shared, dataDir, serverName: plan.nodeName, keys, reload });
  const plannedPlugins = plugins.map(
    (plugin): PlannedPlugin => ({ plugin, name: plugin.id, config: {}, path: 'spec', segments: ['spec'] }),
  );
  return { ...plan, plugins: [...plan.plugins, ...plannedPlugins] };
}

/** Opens the keys of the data directory. Keys that sign and verify tokens are reloaded when their files change. */
async function openKeyFiles(
  directory: string,
  { options, planned: { facts }, log, cleanups }: RunContext,
  areShared: boolean,
): Promise<KeyFiles> {
  const { issuer = issuerOf(facts.domain), algorithm } = options.file.spec.serviceAccountTokens;
  // keys that servers share change by a rotation only
  const files = await openKeys(directory, issuer, {
    algorithm: areShared ? undefined : algorithm,
    days: certificateDays(options.file.spec),
  });
  const stopFollowing = new AbortController();
  cleanups.push(() => stopFollowing.abort());
  files.follow(stopFollowing.signal, (error) => log.error({ err: error }, 'could not read the keys of service account tokens'));
  return files;
}
