import { mkdir } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { sectionOf, insertPlugin } from '@oarlock/cluster/cluster-file/insert-plugin';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { clusterSchema, type ClusterSpec, type PlacementSpec } from '@oarlock/cluster/cluster-file/cluster-schema';
import type { PlannedPlugin } from '@oarlock/cluster/composition/plan';
import { frontOf } from '@oarlock/cluster/hosting/front';
import { withDedicatedInformers } from '@oarlock/cluster/identity/dedicated-informers';
import { loadPlugin } from '@oarlock/cluster/plugins/plugin-loader';
import { adminKubeconfig } from '@oarlock/cluster/process/process-state';
import { run, type RunningCluster } from '@oarlock/cluster/run';
import { placementsOf, sections } from '@oarlock/cluster/cluster-file/sections';
import { WiringError } from '@oarlock/kernel/errors';
import type { Logger } from '@oarlock/primitives/logger';
import type { PluginContext } from '@oarlock/kernel/plugin';
import { Admission, type AdmissionPlugin } from '@oarlock/spi/admission';
import { Authn, type Authenticator } from '@oarlock/spi/authn';
import { Controllers, type Controller } from '@oarlock/spi/controller';
import { describeError } from '../common/command-error.ts';
import { changedKeys, withoutConfigs } from './changed-keys.ts';
import { FileWatch } from './file-watch.ts';
import { observeAdmission, observeAuthn, observeController } from './observe-plugins.ts';
import { colorsFor, type Colors } from './terminal-colors.ts';
import { Reloader } from './reloader.ts';
import { RequestLog } from './request-log.ts';

export interface DevOptions {
  readonly file?: string;
  readonly dataDir: string;
  readonly port?: number;
  readonly all: boolean;
}

const print = (text: string): void => {
  process.stdout.write(`${text}\n`);
};

/** Runs a cluster in memory, reloads the given plugins when they are saved, and prints what every plugin does to each request. */
export async function dev(plugins: readonly string[], options: DevOptions): Promise<void> {
  const paint = colorsFor(process.stdout.isTTY === true && process.stdout.hasColors());
  const stop = new AbortController();
  const { signal } = stop;
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => stop.abort());
  const alive = setInterval(() => {}, 1 << 30);
  try {
    for (;;) {
      const started = await startCluster(plugins, { options, paint, signal }).catch((error: unknown) => {
        if (signal.aborted) return undefined;
        if (!(error instanceof WiringError)) throw error;
        print(paint.red(describeError(error).message));
        return 'invalid' as const;
      });
      if (started === undefined) return;
      if (started !== 'invalid') {
        await aborted(signal);
        await started.close();
        return;
      }
      print(paint.dim('Waiting for a corrected file. Stop with Ctrl-C.'));
      await changed(
        [...plugins, ...(options.file === undefined ? [] : [options.file])].map((path) => resolve(path)),
        signal,
      );
      if (signal.aborted) return;
    }
  } finally {
    clearInterval(alive);
  }
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((done) => {
    if (signal.aborted) done();
    else signal.addEventListener('abort', () => done(), { once: true });
  });

/** Matches source and config files. Other files, such as a log of this command in the same directory, are not watched. */
const watchedFiles = /\.(?:[cm]?[jt]sx?|json|ya?ml)$/;

/** Resolves when one of the files, or a file in the same directory, changes: the error may be in a file that they import. */
async function changed(files: readonly string[], signal: AbortSignal): Promise<void> {
  const { readdir } = await import('node:fs/promises');
  const directories = new Set(files.map((file) => dirname(file)));
  const siblings = await Promise.all(
    [...directories].map(async (directory) => (await readdir(directory)).map((name) => join(directory, name))),
  );
  await new Promise<void>((done) => {
    const watch = new FileWatch(() => finish());
    const finish = () => {
      watch.close();
      signal.removeEventListener('abort', finish);
      done();
    };
    watch.add([...files, ...siblings.flat().filter((path) => watchedFiles.test(path))]);
    signal.addEventListener('abort', finish, { once: true });
  });
}

async function startCluster(
  plugins: readonly string[],
  { options, paint, signal }: { readonly options: DevOptions; readonly paint: Colors; readonly signal: AbortSignal },
): Promise<{ close(): Promise<void> }> {
  const file = await fileOf(plugins, options);
  const own = new Set<string>();
  const log = new RequestLog({ paint, print, own, all: options.all });
  const dataDir = resolve(options.dataDir);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const running = await run({
    file,
    dataDir,
    signal,
    port: options.port ?? 0,
    onSpan: (span) => log.span(span),
    onWarning: (warning) => print(paint.yellow(`Warning: ${warning}`)),
    mapPlugin: (planned) => observePlugin(planned, { own, log, paint }),
  });
  const reloader = new Reloader({
    host: running.composition.host,
    plugins: running.composition.plan.plugins,
    reloaded: (name, ms) => {
      log.renew();
      print(paint.green(`${paint.bold(name)} was reloaded in ${Math.round(ms)} ms`));
    },
    rejected: (name, message) =>
      print(`${paint.red(`${paint.bold(name)} was not reloaded; the previous version keeps running:`)}\n${message}`),
    restartNeeded: (name, keys) => print(paint.yellow(`${paint.bold(name)}: restart oarlock dev to apply the changed ${keys.join(', ')}`)),
  });
  const configs = followConfig(options, { plugins, reloader, paint, running: file.spec });
  await reloader.warm();
  print(banner(running, { dataDir, names: reloader.names, paint }));
  log.renew();
  return {
    async close() {
      configs?.close();
      await reloader.close();
      await running.stop();
    },
  };
}

/**
 * Returns a cluster file with storage in memory and with the given plugins added to their sections. The base is the file in the options or, without
 * a file, a cluster with one simulated node.
 */
async function fileOf(plugins: readonly string[], { file }: DevOptions): Promise<ClusterFile> {
  const read = file === undefined ? undefined : await readClusterFile(file);
  const { spec } =
    read ??
    clusterSchema.parse({
      apiVersion: 'oarlock.dev/v1',
      kind: 'Cluster',
      spec: {
        roles: ['apiserver', 'controllers', 'scheduler', 'kubelet'],
        runtimes: ['runtime-simulated'],
        settings: { kubelet: { nodeName: 'dev' } },
      },
    });
  let composed = { ...spec, storage: { use: 'storage-memory', config: {} }, tracing: { ...spec.tracing, enabled: true } };
  for (const path of plugins) {
    const use = resolve(path);
    const loaded = await loadPlugin(use, undefined);
    if ('fault' in loaded) throw new WiringError([loaded.fault]);
    const section = sectionOf(loaded.plugin);
    if (section === undefined)
      throw new WiringError([
        { code: 'WrongSlot', message: `${path} provides ${loaded.plugin.provides.id}, which has no section in a cluster.yaml` },
      ]);
    composed = { ...composed, ...insertPlugin(composed, section, { use, config: {} }) };
  }
  return {
    name: read?.name ?? 'dev',
    spec: composed,
    ...(file !== undefined && { file: resolve(file) }),
    locate: read?.locate ?? (() => undefined),
  };
}

/** Adds what `oarlock dev` needs to one plugin: reports of its decisions, and for plugins under development printed logs and reloading. */
function observePlugin(
  planned: PlannedPlugin,
  { own, log, paint }: { readonly own: Set<string>; readonly log: RequestLog; readonly paint: Colors },
): PlannedPlugin {
  const { plugin, name, decorate, origin } = planned;
  const { token } = plugin.provides;
  const isOwn = origin?.source !== undefined;
  if (isOwn) own.add(name);
  const front = isOwn ? frontOf(plugin.provides) : undefined;
  const observe = (instance: object): object => {
    if (token === Admission.token)
      return observeAdmission(instance as AdmissionPlugin, name, (spanContext, call) => log.step(spanContext, call));
    if (token === Authn.token && isOwn)
      return observeAuthn(instance as Authenticator, (path, result, ms) => {
        const decision =
          result.outcome === 'authenticated'
            ? paint.green(`is ${result.identity.name}`)
            : paint.red(`rejects: ${result.outcome === 'rejected' ? result.reason : ''}`);
        print(`${paint.cyan(name)} ${decision} ${paint.dim(`${path}, ${ms.toFixed(2)} ms`)}`);
      });
    if (token === Controllers.token && isOwn)
      return observeController(instance as Controller, (key, error) =>
        print(`${paint.cyan(name)} ${paint.red(`reconcile of ${key} failed; retrying`)}${errorText(error)}`),
      );
    return instance;
  };
  const withPrintedLog = (context: PluginContext): PluginContext =>
    isOwn ? { ...context, log: teeLog(context.log, name, paint) } : context;
  const base = isOwn ? withDedicatedInformers(plugin) : plugin;
  return {
    ...planned,
    plugin: isOwn ? { ...base, create: (dependencies, context) => base.create(dependencies, withPrintedLog(context)) } : plugin,
    decorate: (instance, context, health) => observe(decorate?.(instance, withPrintedLog(context), health) ?? instance),
    ...(front && { makeSwappable: front }),
  };
}

/** Returns a logger that also prints info, warnings and errors to the terminal. */
function teeLog(log: Logger, name: string, paint: Colors): Logger {
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (fields: Record<string, unknown>, message: string): void => {
      log[level](fields, message);
      if (level === 'debug') return;
      const { err, ...rest } = fields;
      const color = level === 'error' ? paint.red : level === 'warn' ? paint.yellow : (text: string) => text;
      const more = Object.keys(rest).length === 0 ? '' : ` ${paint.dim(JSON.stringify(rest))}`;
      print(`${paint.cyan(name)} ${color(message)}${more}${errorText(err)}`);
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (more) => teeLog(log.child(more), name, paint),
  };
}

/** Returns the message of an error and those lines of its stack that are in the author's files. */
function errorText(error: unknown): string {
  if (error === undefined) return '';
  if (!(error instanceof Error)) return `: ${String(error)}`;
  const lines = (error.stack ?? '')
    .split('\n')
    .filter(
      (line) =>
        /^\s+at /.test(line) && !/node:|node_modules|[\\/](?:packages|plugins)[\\/][^\\/]+[\\/](?:src|dist)[\\/]|oarlock\.cjs/.test(line),
    );
  return [`: ${error.message}`, ...lines.slice(0, 5)].join('\n');
}

/** Reloads plugins under development when their config in the cluster.yaml changes. Reports other changes of the file, which need a restart. */
function followConfig(
  { file }: DevOptions,
  {
    plugins,
    reloader,
    paint,
    running,
  }: { readonly plugins: readonly string[]; readonly reloader: Reloader; readonly paint: Colors; readonly running: ClusterSpec },
): FileWatch | undefined {
  if (file === undefined) return undefined;
  const path = resolve(file);
  const watch = new FileWatch(() => {
    fileOf(plugins, { file, dataDir: '', all: false })
      .then(async ({ spec }) => {
        const isOwn = ({ use, name }: PlacementSpec) => reloader.namesOf(resolve(dirname(path), use), name).length > 0;
        const keys = changedKeys(withoutConfigs(running, isOwn), withoutConfigs(spec, isOwn)).map((key) => `spec.${key}`);
        if (keys.length > 0) print(paint.yellow(`${basename(path)}: restart oarlock dev to apply the changed ${keys.join(', ')}`));
        for (const section of sections)
          for (const { placement } of placementsOf(spec, section)) {
            const source = resolve(dirname(path), placement.use);
            for (const name of reloader.namesOf(source, placement.name)) await reloader.configure(name, placement as PlacementSpec);
          }
      })
      .catch((error: unknown) => print(`${paint.red(`${basename(path)} was not applied:`)}\n${describeError(error).message}`));
  });
  watch.add([path]);
  return watch;
}

function banner(
  { server, startedInMs }: RunningCluster,
  { dataDir, names, paint }: { readonly dataDir: string; readonly names: readonly string[]; readonly paint: Colors },
): string {
  const kubeconfig = relative(process.cwd(), adminKubeconfig(dataDir));
  return [
    `${paint.bold('Oarlock')} is ready at ${server} (${(startedInMs / 1000).toFixed(2)} s), in memory.`,
    '',
    `  export KUBECONFIG=${kubeconfig.startsWith('..') ? adminKubeconfig(dataDir) : `$PWD/${kubeconfig}`}`,
    '',
    names.length === 0
      ? 'No plugin of your own is loaded: name one with `oarlock dev ./plugin.ts`, or by its path in the file of -f.'
      : `Save ${names.map((name) => paint.cyan(name)).join(', ')} and the next request uses the new version. Stop with Ctrl-C.`,
    '',
  ].join('\n');
}
