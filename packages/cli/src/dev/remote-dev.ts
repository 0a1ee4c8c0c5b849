import { mkdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { EventBroadcaster } from '@oarlock/client/events/event-broadcaster';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { placePlugins } from '@oarlock/cluster/composition/create-plan';
import type { PlannedPlugin } from '@oarlock/cluster/composition/plan';
import { guardProcess } from '@oarlock/cluster/hosting/guard-process';
import { openLog } from '@oarlock/cluster/process/log';
import { DataDirLock, logFile } from '@oarlock/cluster/process/process-state';
import { remoteAccess, type RemoteAccess } from '@oarlock/cluster/remote-access';
import { controllerRole } from '@oarlock/component-server/serve-controller';
import { schedulerConfig } from '@oarlock/component-server/serve-scheduler';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { systemClock } from '@oarlock/primitives/clock';
import { errorText } from '@oarlock/primitives/error-text';
import type { Logger } from '@oarlock/primitives/logger';
import scheduler from '@oarlock/scheduler/plugin';
import { builtin } from '@oarlock/scheduler/plugins/registry';
import { Admission } from '@oarlock/spi/admission';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Controllers } from '@oarlock/spi/controller';
import { Scheduling } from '@oarlock/spi/scheduling';
import { CommandError } from '../common/command-error.ts';
import { AdmissionVersions, printMatchWarnings } from './admission-versions.ts';
import type { StartOptions } from './dev-options.ts';
import { devFile, followConfig } from './dev-file.ts';
import { observePlugin } from './observe-planned.ts';
import { Reloader } from './reloader.ts';
import { stepLines } from './request-log.ts';
import { removeLeftBehind } from './dev-session.ts';
import { openWebhookHost, requestLine, type WebhookHost } from './webhook-host.ts';
import { loadRemotePlugins } from './remote-plugins.ts';

const defaultSchedulerName = 'oarlock-dev';
/** Time in seconds in which running calls end after the first signal. */
const drainSeconds = 2;
type Cleanups = (() => Promise<void> | void)[];
const ofSlot = (plugins: readonly PlannedPlugin[], slot: { readonly token: symbol }) =>
  plugins.filter(({ plugin }) => plugin.provides.token === slot.token);

/** Runs plugins against the cluster of a kubeconfig. Resolves when they run; `close` removes their webhooks. @throws what prevents the start */
export async function startRemote(paths: readonly string[], start: StartOptions): Promise<{ close(): Promise<void> }> {
  const cleanups: Cleanups = [];
  const close = async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  };
  try {
    await runRemote(paths, start, cleanups);
  } catch (error) {
    await close();
    throw error;
  }
  return { close };
}

async function runRemote(paths: readonly string[], start: StartOptions, cleanups: Cleanups): Promise<void> {
  const { options, paint, print, signal } = start;
  const file = await devFile(paths, options.file);
  const { plugins, warnings } = await loadRemotePlugins(file);
  for (const warning of warnings) print(paint.yellow(`Warning: ${warning}`));
  const dataDir = resolve(options.dataDir);
  const access = await connect(options.kubeconfig ?? '', signal);
  cleanups.push(() => access.close());
  const lock = await DataDirLock.acquire(dataDir, access.server, []);
  cleanups.push(() => lock.release());
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const { log, close: closeLog } = openLog(logFile(dataDir), 'info');
  cleanups.push(closeLog);
  const notice = await removeLeftBehind(dataDir, { client: access.client, server: access.server, signal });
  if (notice !== undefined) print(paint.yellow(notice));

  const own = new Set<string>();
  const versions = new AdmissionVersions();
  const onCall: Parameters<typeof observePlugin>[1]['onCall'] = (request, call) =>
    print([requestLine(request, paint), ...stepLines(call, { paint, own })].join('\n'));
  const observed = plugins.map((planned) => observePlugin(versions.record(planned), { own, paint, print, onCall, isRemote: true }));
  const schedulerName = options.schedulerName ?? defaultSchedulerName;
  const host = hostOf({ file, plugins: observed }, { access, log, schedulerName, cleanups });
  cleanups.push(guardProcess({ planned: observed, hosted: () => host.plugins, log, signal, drainSeconds }));
  await host.start(signal);
  cleanups.push(() => host.stop());
  versions.adopt();
  const webhooks = await registerWebhooks(host, { start, access, dataDir, log, versions, plugins: observed });
  if (webhooks !== undefined) cleanups.push(() => webhooks.close());
  const reloader = followPlugins(host, { access, plugins: observed, start, versions, webhooks });
  const configs = followConfig(options.file, { plugins: paths, reloader, paint, print, running: file.spec });
  cleanups.push(
    () => reloader.close(),
    () => configs?.close(),
  );
  await reloader.warm();
  await lock.ready();
  const isScheduling = ofSlot(observed, Scheduling).length > 0;
  print(banner({ server: access.server, names: reloader.names, webhooks, schedulerName: isScheduling ? schedulerName : undefined }, start));
}

/** @throws CommandError if the API server does not answer */
async function connect(kubeconfig: string, signal: AbortSignal): Promise<RemoteAccess> {
  const access = await remoteAccess(kubeconfig);
  try {
    await access.client.raw('GET', '/version', undefined, { signal });
    return access;
  } catch (cause) {
    access.close();
    throw new CommandError(`the API server at ${access.server} does not answer: ${errorText(cause)}`, 1, { cause });
  }
}

interface HostParts {
  readonly access: RemoteAccess;
  readonly log: Logger;
  readonly schedulerName: string;
  readonly cleanups: Cleanups;
}

/** Returns a host with the plugins, and the roles that run controllers and scheduling plugins. */
function hostOf(composition: Parameters<typeof placePlugins>[1], { access, log, schedulerName, cleanups }: HostParts): PluginHost {
  const client = access.client.withUserAgent('oarlock-dev');
  const informers = new SharedInformerFactory({ client, log, clock: systemClock });
  const events = new EventBroadcaster({ client, log, clock: systemClock, random: Math.random });
  cleanups.push(
    () => events.stop(),
    () => informers.stop(),
  );
  informers.start();
  const host = new PluginHost({ log }).provide(Client, client).provide(Informers, informers).provide(Events, events);
  const isScheduling = ofSlot(composition.plugins, Scheduling).length > 0;
  const replaced = new Set(composition.plugins.map(({ name }) => name));
  if (isScheduling) for (const plugin of builtin) if (!replaced.has(plugin.id)) host.add({ plugin, config: {} });
  placePlugins(host, composition);
  if (isScheduling) host.add({ plugin: scheduler, config: schedulerConfig(schedulerName, undefined) });
  if (ofSlot(composition.plugins, Controllers).length > 0) host.add({ plugin: controllerRole(undefined), config: {} });
  return host;
}

interface RunningParts {
  readonly access: RemoteAccess;
  readonly start: StartOptions;
  readonly versions: AdmissionVersions;
  readonly plugins: readonly PlannedPlugin[];
}

async function registerWebhooks(
  host: PluginHost,
  {
    start: { options, paint, print, signal },
    access,
    dataDir,
    log,
    versions,
    plugins,
  }: RunningParts & { readonly dataDir: string; readonly log: Logger },
): Promise<WebhookHost | undefined> {
  const instances = host.get(Admission);
  const reviewers = new Map(
    ofSlot(plugins, Admission).flatMap(({ name }, at) => {
      const instance = instances[at];
      return instance === undefined ? [] : [[name, instance] as const];
    }),
  );
  if (reviewers.size === 0) return undefined;
  await printMatchWarnings(access.client, versions.running, { paint, print });
  const { webhookUrl, port } = options;
  const failurePolicy = options.failurePolicy === 'Fail' ? 'Fail' : 'Ignore';
  const webhooks = await openWebhookHost(reviewers, { access, dataDir, webhookUrl, port, failurePolicy, log, paint, print, signal });
  try {
    await webhooks.apply(versions.running);
  } catch (error) {
    await webhooks.close();
    throw error;
  }
  return webhooks;
}

function followPlugins(
  host: PluginHost,
  { access, plugins, start: { paint, print }, versions, webhooks }: RunningParts & { readonly webhooks: WebhookHost | undefined },
): Reloader {
  return new Reloader({
    host,
    plugins,
    isRemote: true,
    reloaded(name, ms) {
      print(paint.green(`${paint.bold(name)} was reloaded in ${Math.round(ms)} ms`));
      const adopted = versions.adopt(name);
      if (adopted.length === 0) return;
      void printMatchWarnings(access.client, adopted, { paint, print });
      webhooks
        ?.apply(versions.running)
        .catch((error: unknown) => print(paint.red(`${paint.bold(name)}: its rules in the cluster were not updated: ${errorText(error)}`)));
    },
    rejected: (name, message) =>
      print(`${paint.red(`${paint.bold(name)} was not reloaded; the previous version keeps running:`)}\n${message}`),
    restartNeeded: (name, keys) => print(paint.yellow(`${paint.bold(name)}: restart oarlock dev to apply the changed ${keys.join(', ')}`)),
  });
}

interface BannerFacts {
  readonly server: string;
  readonly names: readonly string[];
  readonly webhooks: WebhookHost | undefined;
  readonly schedulerName: string | undefined;
}

function banner({ server, names, webhooks, schedulerName }: BannerFacts, { paint, options }: StartOptions): string {
  const policy = options.failurePolicy ?? 'Ignore';
  return [
    `${paint.bold('Oarlock')} is ready: plugins run against ${server}.`,
    '',
    ...(webhooks === undefined ? [] : [`  The API server calls admission plugins at ${webhooks.url} (failurePolicy: ${policy}).`]),
    ...(schedulerName === undefined ? [] : [`  Scheduling plugins decide about pods with \`schedulerName: ${schedulerName}\`.`]),
    `Save ${names.map((name) => paint.cyan(name)).join(', ')} and the next request uses the new version. Stop with Ctrl-C.`,
    '',
  ].join('\n');
}
