import { existsSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Plan } from '@oarlock/cluster/composition/plan';
import { adminKubeconfig } from '@oarlock/cluster/process/process-state';
import { commandName } from './command-name.ts';
import { shellWord } from './shell-word.ts';

/** A cluster that is ready. */
export interface ReadyCluster {
  readonly plan: Pick<Plan, 'roles' | 'nodeName'> & { readonly plugins: readonly { readonly plugin: { readonly id: string } }[] };
  readonly server: string;
  readonly startedInMs: number;
}

export interface ReadyMessageOptions {
  readonly dataDir: string;
  /** True for the first server of a cluster that other servers can join. */
  readonly init?: boolean | undefined;
  /** A sign-in link of the console. */
  readonly link?: string | undefined;
  /** Lines about the composition. */
  readonly notices: readonly string[];
}

/** Returns what `oarlock up`, `server join` and `node join` print when the process is ready. The first line begins with `Oarlock is ready at` or `The node`. */
export function readyMessage({ plan, server, startedInMs }: ReadyCluster, { dataDir, init, link, notices }: ReadyMessageOptions): string {
  if (!plan.roles.includes('apiserver')) {
    const subject = plan.roles.includes('kubelet') ? `The node ${plan.nodeName}` : 'Oarlock';
    return [
      `${subject} is ready at ${server} (${(startedInMs / 1000).toFixed(2)} s): ${plan.roles.join(', ')}.`,
      ...notices,
      '',
      `  ${commandName(import.meta.url)} down --data-dir ${shellWord(dataDir)}`,
    ].join('\n');
  }
  const isPlaced = (id: string) => plan.plugins.some(({ plugin }) => plugin.id === id);
  const hello = isPlaced('runtime-process')
    ? `apply -f ${shellWord(exampleFolder('hello'))}`
    : isPlaced('runtime-simulated')
      ? 'create deployment hello --image=any --replicas=3'
      : `apply -k ${shellWord(exampleFolder('hello-image'))}`;
  const oarlock = commandName(import.meta.url);
  const here = dataDir === resolve('.oarlock') ? '' : ` --data-dir ${shellWord(dataDir)}`;
  const addServer = init === true ? [`  ${oarlock} token create --role server${here}`] : [];
  return [
    `Oarlock is ready at ${server} (${(startedInMs / 1000).toFixed(2)} s): ${plan.roles.join(', ')}.`,
    ...notices,
    '',
    `  export KUBECONFIG=${shellWord(adminKubeconfig(dataDir))}`,
    '  kubectl get nodes',
    `  kubectl ${hello}`,
    '  kubectl get pods -o wide',
    `  ${oarlock} trace deployment/hello${here}`,
    ...(link === undefined
      ? []
      : ['', `  Console: ${link}`, `  (valid once and for a few minutes; another: ${oarlock} console${here})`, '']),
    ...addServer,
    `  ${oarlock} down${here}`,
  ].join('\n');
}

/** Returns the path of an example, relative to the current directory if it is below it. `module` is the URL of the file that runs. */
export function exampleFolder(name: string, module = import.meta.url): string {
  // beside `bundle` in the published package, otherwise at the root of the checkout, where compiled modules are one folder deeper than the bundle
  const parents = ['..', '../../..', '../../../..'];
  const folders = parents.map((parent) => fileURLToPath(new URL(`${parent}/examples/${name}/`, module)));
  const folder = folders.find((path) => existsSync(path)) ?? `examples/${name}/`;
  const short = relative(process.cwd(), folder);
  return short.startsWith('..') ? folder : `${short}/`;
}
