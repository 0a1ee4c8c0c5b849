import { spawn } from 'node:child_process';
import { openSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { chooseCluster } from '@oarlock/cluster/choose';
import { readClusterFile, type ClusterFile } from '@oarlock/cluster/cluster-file';
import { roleNames, type RoleName } from '@oarlock/cluster/cluster-schema';
import type { Joined } from '@oarlock/cluster/plan';
import { adminKubeconfig, logFile } from '@oarlock/cluster/process-state';
import { run, type Running } from '@oarlock/cluster/run';
import { CommandError, exitCodes } from './exit.ts';

/** A second request to stop within this time is an echo of the first. */
const impatienceMs = 1000;

export interface UpOptions {
  readonly file?: string;
  readonly dataDir: string;
  readonly port?: number;
  readonly roles?: string;
  readonly nodeName?: string;
  readonly server?: string;
  readonly kubeconfig?: string;
  readonly detach: boolean;
  /** Of a node that joined. */
  readonly joined?: Omit<Joined, 'server'>;
}

function rolesOf(text: string | undefined): readonly RoleName[] | undefined {
  if (text === undefined) return undefined;
  const names = text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  const unknown = names.filter((name) => !roleNames.includes(name as RoleName));
  if (unknown.length > 0 || names.length === 0) {
    throw new CommandError(
      `--roles: ${unknown.length > 0 ? `unknown role ${unknown.join(', ')}` : 'no role given'}; roles are ${roleNames.join(', ')}`,
      exitCodes.usage,
    );
  }
  return names as RoleName[];
}

export async function up(options: UpOptions): Promise<void> {
  if (options.detach && process.send === undefined) return detach(options);
  // V8 marks a large heap against the clock, and where it is behind it takes nearly all of the event loop's time until it is done. Without
  // these tasks it goes by what is allocated, and leaves most of the marking to its other threads.
  setFlagsFromString('--no-incremental-marking-task');
  const roles = rolesOf(options.roles);
  const dataDir = resolve(options.dataDir);
  const file = await fileOf(options);
  const remote = await remoteOf(options, dataDir, roles ?? file.spec.roles);
  const stop = new AbortController();
  const asked = new Promise<void>((done) => {
    let since: number | undefined;
    const end = () => {
      // the terminal and npm both pass a Ctrl-C on: only one that comes later is meant as "at once"
      if (since !== undefined && performance.now() - since > impatienceMs) process.exit(exitCodes.failed);
      since ??= performance.now();
      stop.abort();
      done();
    };
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, end);
  });
  // timers of the cluster do not keep the process alive; its purpose does
  const alive = setInterval(() => {}, 1 << 30);
  const running = await run({
    file,
    dataDir,
    signal: stop.signal,
    ...(roles && { roles }),
    ...(options.port !== undefined && { port: options.port }),
    ...(options.nodeName !== undefined && { nodeName: options.nodeName }),
    ...(remote && { remote }),
    ...(options.joined && remote && { joined: { ...options.joined, server: remote.server } }),
  }).catch((error: unknown) => {
    clearInterval(alive);
    // what was told to stop while it started has done as it was told
    if (stop.signal.aborted) return undefined;
    throw error;
  });
  if (running === undefined) {
    console.log('Stopped before it was ready.');
    return;
  }
  if (process.send !== undefined) {
    process.send({ ready: report(running, dataDir) });
    process.disconnect();
  } else {
    console.log(report(running, dataDir));
    console.log('\nStop it with Ctrl-C.');
  }
  await asked;
  await running.stop();
  clearInterval(alive);
}

async function fileOf({ file }: UpOptions): Promise<ClusterFile> {
  if (file !== undefined) return readClusterFile(file);
  const { file: chosen, because } = await chooseCluster();
  if (process.send === undefined) console.log(`Composition ${chosen.name}: ${because}.`);
  return chosen;
}

async function remoteOf({ kubeconfig, server }: UpOptions, dataDir: string, roles: readonly RoleName[]) {
  if (roles.includes('apiserver')) return undefined;
  if (kubeconfig === undefined)
    throw new CommandError(
      'a process without the apiserver role needs --kubeconfig FILE (and --server URL where the file does not say it)',
      exitCodes.usage,
    );
  const { remoteProcess } = await import('@oarlock/cluster/remote');
  return remoteProcess(kubeconfig, { pki: join(dataDir, 'pki'), ...(server !== undefined && { server }) });
}

function report({ plan, server, startedInMs }: Running, dataDir: string): string {
  if (!plan.roles.includes('apiserver')) {
    const subject = plan.roles.includes('kubelet') ? `The node ${plan.nodeName}` : 'Oarlock';
    return [
      `${subject} is ready at ${server} (${(startedInMs / 1000).toFixed(2)} s): ${plan.roles.join(', ')}.`,
      '',
      `  npx oarlock down --data-dir ${dataDir}`,
    ].join('\n');
  }
  const placed = (id: string) => plan.plugins.some(({ plugin }) => plugin.id === id);
  const hello = placed('runtime-process')
    ? `apply -f ${exampleFolder('hello')}`
    : placed('runtime-simulated')
      ? 'create deployment hello --image=any --replicas=3'
      : `apply -k ${exampleFolder('hello-image')}`;
  const here = dataDir === resolve('.oarlock') ? '' : ` --data-dir ${dataDir}`;
  return [
    `Oarlock is ready at ${server} (${(startedInMs / 1000).toFixed(2)} s): ${plan.roles.join(', ')}.`,
    '',
    `  export KUBECONFIG=${adminKubeconfig(dataDir)}`,
    '  kubectl get nodes',
    `  kubectl ${hello}`,
    '  kubectl get pods -o wide',
    `  npx oarlock trace deployment/hello${here}`,
    `  npx oarlock down${here}`,
  ].join('\n');
}

/** An example, as it is named from the directory that the command was started in. */
function exampleFolder(name: string): string {
  const folder = fileURLToPath(new URL(`../../../examples/${name}/`, import.meta.url));
  const short = relative(process.cwd(), folder);
  return short.startsWith('..') ? folder : `${short}/`;
}

/** Runs the same command in a process of its own, and returns when that says it is ready. */
async function detach(options: UpOptions): Promise<void> {
  const dataDir = resolve(options.dataDir);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const output = `${logFile(dataDir)}.out`;
  const out = openSync(output, 'w', 0o600);
  const child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
    detached: true,
    stdio: ['ignore', out, out, 'ipc'],
  });
  const outcome = await new Promise<string | number>((done) => {
    child.once('message', (message) => done((message as { readonly ready: string }).ready));
    child.once('exit', (code) => done(code ?? exitCodes.failed));
    child.once('error', () => done(exitCodes.failed));
  });
  if (typeof outcome === 'number') {
    const said = (await readFile(output, 'utf8')).trim();
    throw new CommandError(
      said === '' ? `the cluster ended before it was ready; see ${output}` : said,
      outcome === 0 ? exitCodes.failed : outcome,
    );
  }
  child.unref();
  console.log(outcome);
}
