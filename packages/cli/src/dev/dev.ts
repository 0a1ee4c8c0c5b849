import { mkdir } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { adminKubeconfig } from '@oarlock/cluster/process/process-state';
import { run, type RunningCluster } from '@oarlock/cluster/run';
import { printableLines } from '@oarlock/primitives/printable-text';
import { WiringError } from '@oarlock/kernel/errors';
import { Client } from '@oarlock/spi/client';
import { adminLink } from '../console/console-link.ts';
import { CommandError, describeError, exitCodes } from '../common/command-error.ts';
import { AdmissionVersions, printMatchWarnings } from './admission-versions.ts';
import type { DevOptions, StartOptions } from './dev-options.ts';
import { devFile, followConfig } from './dev-file.ts';
import { FileWatch } from './source/file-watch.ts';
import { observePlugin } from './observe-planned.ts';
import { pluginFiles } from './plugin-files.ts';
import { reloadPath } from './reload-path.ts';
import { Reloader } from './reloader.ts';
import { RequestLog } from './request-log.ts';
import { colorsFor, type Colors } from './terminal-colors.ts';

/** Options that have a meaning only in an existing cluster. */
const remoteOptions = { webhookUrl: '--webhook-url', failurePolicy: '--failure-policy', schedulerName: '--scheduler-name' } as const;

const print = (text: string): void => {
  // names of objects and users are printed before they are validated
  process.stdout.write(`${printableLines(text)}\n`);
};

/**
 * Runs a cluster in memory, or uses that of a kubeconfig, reloads the given plugins when they are saved, and prints what every plugin does to each
 * request. A plugin is a file, or a folder with one plugin or several.
 */
export async function dev(paths: readonly string[], options: DevOptions): Promise<void> {
  for (const [key, flag] of Object.entries(remoteOptions))
    if (options.kubeconfig === undefined && options[key as keyof typeof remoteOptions] !== undefined)
      throw new CommandError(`${flag} applies only to an existing cluster: name it with --kubeconfig FILE`, exitCodes.usage);
  const plugins = await pluginFiles(paths);
  const paint = colorsFor(process.stdout.isTTY === true && process.stdout.hasColors());
  const stop = new AbortController();
  const { signal } = stop;
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => stop.abort());
  const alive = setInterval(() => {}, 1 << 30);
  try {
    for (;;) {
      const start = options.kubeconfig === undefined ? startCluster : (await import('./remote-dev.ts')).startRemote;
      const started = await start(plugins, { options, paint, print, signal }).catch((error: unknown) => {
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

async function startCluster(plugins: readonly string[], { options, paint, signal }: StartOptions): Promise<{ close(): Promise<void> }> {
  const file = await devFile(plugins, options.file);
  const own = new Set<string>();
  const log = new RequestLog({ paint, print, own, all: options.all });
  const dataDir = resolve(options.dataDir);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const versions = new AdmissionVersions();
  let reloader: Reloader | undefined;
  const running = await run({
    ownsProcess: true,
    file,
    dataDir,
    signal,
    port: options.port ?? 0,
    paths: [reloadPath(() => reloader)],
    onSpan: (span) => log.span(span),
    onWarning: (warning) => print(paint.yellow(`Warning: ${warning}`)),
    mapPlugin: (planned) =>
      observePlugin(planned.origin?.source === undefined ? planned : versions.record(planned), {
        own,
        paint,
        print,
        onCall: ({ spanContext }, call) => log.step(spanContext, call),
      }),
  });
  const client = running.composition.host.get(Client);
  const started = new Reloader({
    host: running.composition.host,
    plugins: running.composition.plan.plugins,
    reloaded: (name, ms) => {
      log.renew();
      print(paint.green(`${paint.bold(name)} was reloaded in ${Math.round(ms)} ms`));
      void printMatchWarnings(client, versions.adopt(name), { paint, print });
    },
    rejected: (name, message) =>
      print(`${paint.red(`${paint.bold(name)} was not reloaded; the previous version keeps running:`)}\n${message}`),
    restartNeeded: (name, keys) => print(paint.yellow(`${paint.bold(name)}: restart oarlock dev to apply the changed ${keys.join(', ')}`)),
  });
  reloader = started;
  const configs = followConfig(options.file, { plugins, reloader: started, paint, print, running: file.spec });
  await started.warm();
  await printMatchWarnings(client, versions.adopt(), { paint, print });
  print(banner(running, { dataDir, reloader: started, paint, consoleLink: await adminLink(running) }));
  log.renew();
  return {
    async close() {
      configs?.close();
      await started.close();
      await running.stop();
    },
  };
}

function banner(
  { server, startedInMs }: RunningCluster,
  {
    dataDir,
    reloader: { names, fixedNames },
    paint,
    consoleLink,
  }: {
    readonly dataDir: string;
    readonly reloader: Pick<Reloader, 'names' | 'fixedNames'>;
    readonly paint: Colors;
    readonly consoleLink: string | undefined;
  },
): string {
  const listed = (all: readonly string[]) => all.map((name) => paint.cyan(name)).join(', ');
  const kubeconfig = relative(process.cwd(), adminKubeconfig(dataDir));
  return [
    `${paint.bold('Oarlock')} is ready at ${server} (${(startedInMs / 1000).toFixed(2)} s), in memory.`,
    '',
    `  export KUBECONFIG=${kubeconfig.startsWith('..') ? adminKubeconfig(dataDir) : `$PWD/${kubeconfig}`}`,
    ...(consoleLink === undefined ? [] : [`  Console: ${consoleLink}`]),
    '',
    ...(names.length + fixedNames.length === 0
      ? ['No plugin of your own is loaded: name one with `oarlock dev ./plugin.ts`, or by its path in the file of -f.']
      : []),
    ...(names.length === 0 ? [] : [`Save ${listed(names)} and the next request uses the new version. Stop with Ctrl-C.`]),
    ...(fixedNames.length === 0 ? [] : [`Restart oarlock dev to apply changes of ${listed(fixedNames)}.`]),
    '',
  ].join('\n');
}
