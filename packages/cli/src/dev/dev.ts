import { mkdir } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { sectionOf, withPlugin } from '@oarlock/cluster/added';
import { readClusterFile, type ClusterFile } from '@oarlock/cluster/cluster-file';
import { clusterSchema, type PlacementSpec } from '@oarlock/cluster/cluster-schema';
import type { Planned } from '@oarlock/cluster/plan';
import { frontOf } from '@oarlock/cluster/hosting/fronts';
import { withOwnInformers } from '@oarlock/cluster/hosting/own-informers';
import { loadPlugin } from '@oarlock/cluster/plugin-loader';
import { adminKubeconfig } from '@oarlock/cluster/process-state';
import { run, type Running } from '@oarlock/cluster/run';
import { placementsOf, sections } from '@oarlock/cluster/sections';
import { WiringError } from '@oarlock/kernel/errors';
import type { Logger } from '@oarlock/kernel/logger';
import type { PluginContext } from '@oarlock/kernel/plugin';
import { Admission, type AdmissionPlugin } from '@oarlock/spi/admission';
import { Authn, type Authenticator } from '@oarlock/spi/authn';
import { explain } from '../exit.ts';
import { FileWatch } from './file-watch.ts';
import { observedAdmission, observedAuthn } from './observed.ts';
import { paintOf, type Paint } from './paint.ts';
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

/** Runs a cluster with the plugins that are being written, takes up each save, and says what every plugin makes of each write. */
export async function dev(plugins: readonly string[], options: DevOptions): Promise<void> {
  const paint = paintOf(process.stdout.isTTY === true && process.stdout.hasColors());
  const stop = new AbortController();
  const { signal } = stop;
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => stop.abort());
  const alive = setInterval(() => {}, 1 << 30);
  try {
    for (;;) {
      const began = await begin(plugins, options, paint, signal).catch((error: unknown) => {
        if (signal.aborted) return undefined;
        if (!(error instanceof WiringError)) throw error;
        print(paint.red(explain(error).message));
        return 'broken' as const;
      });
      if (began === undefined) return;
      if (began !== 'broken') {
        await aborted(signal);
        await began.close();
        return;
      }
      print(paint.dim('Waiting for it to be corrected. Stop with Ctrl-C.'));
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

/** What somebody writes: a log beside it, of this very command, is none of it. */
const written = /\.(?:[cm]?[jt]sx?|json|ya?ml)$/;

/** Any such file beside these: what is wrong may be in one that they import. */
async function changed(files: readonly string[], signal: AbortSignal): Promise<void> {
  const { readdir } = await import('node:fs/promises');
  const directories = new Set(files.map((file) => dirname(file)));
  const beside = await Promise.all(
    [...directories].map(async (directory) => (await readdir(directory)).map((name) => join(directory, name))),
  );
  await new Promise<void>((done) => {
    const watch = new FileWatch(() => finish());
    const finish = () => {
      watch.close();
      signal.removeEventListener('abort', finish);
      done();
    };
    watch.add([...files, ...beside.flat().filter((path) => written.test(path))]);
    signal.addEventListener('abort', finish, { once: true });
  });
}

async function begin(
  plugins: readonly string[],
  options: DevOptions,
  paint: Paint,
  signal: AbortSignal,
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
    observe: (span) => log.span(span),
    arrange: (planned) => arranged(planned, own, log, paint),
  });
  const reloader = new Reloader({
    host: running.composition.host,
    plugins: running.composition.plan.plugins,
    reloaded: (name, ms) => {
      log.renew();
      print(paint.green(`${paint.bold(name)} is reloaded in ${Math.round(ms)} ms`));
    },
    refused: (name, message) => print(`${paint.red(`${paint.bold(name)} is not reloaded, the version before stays:`)}\n${message}`),
  });
  const configs = followConfig(options, plugins, reloader, paint);
  await reloader.warm();
  print(banner(running, dataDir, reloader.names, paint));
  log.renew();
  return {
    async close() {
      configs?.close();
      await reloader.close();
      await running.stop();
    },
  };
}

/** What the file says, in memory; without a file a cluster of one simulated node. Plugins named besides come where they belong. */
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
  let whole = { ...spec, storage: { use: 'storage-memory', config: {} }, tracing: { ...spec.tracing, enabled: true } };
  for (const path of plugins) {
    const use = resolve(path);
    const loaded = await loadPlugin(use, undefined);
    if ('fault' in loaded) throw new WiringError([loaded.fault]);
    const section = sectionOf(loaded.plugin);
    if (section === undefined)
      throw new WiringError([
        { code: 'WrongSlot', message: `${path} fills ${loaded.plugin.provides.id}, for which a cluster has no section` },
      ]);
    whole = { ...whole, ...withPlugin(whole, section, { use, config: {} }) };
  }
  return {
    name: read?.name ?? 'dev',
    spec: whole,
    ...(file !== undefined && { file: resolve(file) }),
    locate: read?.locate ?? (() => undefined),
  };
}

function arranged(planned: Planned, own: Set<string>, log: RequestLog, paint: Paint): Planned {
  const { plugin, name, wrap, from } = planned;
  const { token } = plugin.provides;
  const mine = from?.source !== undefined;
  if (mine) own.add(name);
  const front = mine ? frontOf(plugin.provides) : undefined;
  const seen = (made: object): object => {
    if (token === Admission.token) return observedAdmission(made as AdmissionPlugin, name, (cause, step) => log.step(cause, step));
    if (token === Authn.token && mine)
      return observedAuthn(made as Authenticator, (path, result, ms) => {
        const who =
          result.outcome === 'authenticated'
            ? paint.green(`is ${result.identity.name}`)
            : paint.red(`rejects: ${result.outcome === 'rejected' ? result.because : ''}`);
        print(`${paint.cyan(name)} ${who} ${paint.dim(`${path}, ${ms.toFixed(2)} ms`)}`);
      });
    return made;
  };
  const heard = (context: PluginContext): PluginContext => (mine ? { ...context, log: teed(context.log, name, paint) } : context);
  const base = mine ? withOwnInformers(plugin) : plugin;
  return {
    ...planned,
    plugin: mine ? { ...base, create: (given, context) => base.create(given, heard(context)) } : plugin,
    wrap: (made, context) => seen(wrap?.(made, heard(context)) ?? made),
    ...(front && { front }),
  };
}

/** What a plugin of one's own logs is shown, too. */
function teed(log: Logger, name: string, paint: Paint): Logger {
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (fields: Record<string, unknown>, message: string): void => {
      log[level](fields, message);
      if (level === 'debug') return;
      const { err, ...rest } = fields;
      const colour = level === 'error' ? paint.red : level === 'warn' ? paint.yellow : (text: string) => text;
      const more = Object.keys(rest).length === 0 ? '' : ` ${paint.dim(JSON.stringify(rest))}`;
      print(`${paint.cyan(name)} ${colour(message)}${more}${traceOf(err)}`);
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (more) => teed(log.child(more), name, paint),
  };
}

/** The message, and the lines of the author's own files. */
function traceOf(error: unknown): string {
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

/** The config of plugins of one's own is taken up when the file is saved; what else changes there wants another start. */
function followConfig({ file }: DevOptions, plugins: readonly string[], reloader: Reloader, paint: Paint): FileWatch | undefined {
  if (file === undefined) return undefined;
  const path = resolve(file);
  const watch = new FileWatch(() => {
    fileOf(plugins, { file, dataDir: '', all: false })
      .then(async ({ spec }) => {
        for (const section of sections)
          for (const { placement } of placementsOf(spec, section)) {
            const source = resolve(dirname(path), placement.use);
            for (const name of reloader.namesOf(source, placement.name)) await reloader.configure(name, placement as PlacementSpec);
          }
      })
      .catch((error: unknown) => print(`${paint.red(`${basename(path)} is not taken up:`)}\n${explain(error).message}`));
  });
  watch.add([path]);
  return watch;
}

function banner({ server, startedInMs }: Running, dataDir: string, names: readonly string[], paint: Paint): string {
  const kubeconfig = relative(process.cwd(), adminKubeconfig(dataDir));
  return [
    `${paint.bold('Oarlock')} is ready at ${server} (${(startedInMs / 1000).toFixed(2)} s), in memory.`,
    '',
    `  export KUBECONFIG=${kubeconfig.startsWith('..') ? adminKubeconfig(dataDir) : `$PWD/${kubeconfig}`}`,
    '',
    names.length === 0
      ? 'No plugin of your own is named: `oarlock dev ./plugin.ts`, or by its path in the file after -f.'
      : `Save ${names.map((name) => paint.cyan(name)).join(', ')} and the next request meets the new version. Stop with Ctrl-C.`,
    '',
  ].join('\n');
}
