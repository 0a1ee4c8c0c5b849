import type { Command } from 'commander';
import { progress } from './progress.ts';

const apiServer = 'waiting for the API server';

/** What a command does at first, by its words. Commands refine it with `progress.step`. */
export const commandSteps: Readonly<Record<string, string>> = {
  up: 'starting the cluster',
  init: 'writing the cluster.yaml',
  down: 'stopping the cluster',
  status: 'reading the state of the cluster',
  kubeconfig: 'reading the kubeconfig',
  top: apiServer,
  console: apiServer,
  backup: 'opening the storage',
  restore: 'reading the backup',
  'config validate': 'checking the cluster.yaml',
  'config schema': 'loading the plugins',
  'config print': 'reading the cluster.yaml',
  'plugins list': 'loading the plugins',
  'plugins add': 'installing the package with npm',
  'plugins new': 'writing the package',
  'plugins types': 'reading the definitions',
  'plugins export': 'bundling the plugin',
  'token create': apiServer,
  'keys ca': 'changing the keys of the cluster',
  'keys front-proxy-ca': 'changing the keys of the cluster',
  'keys etcd-ca': 'changing the keys of the members',
  'keys encryption': 'changing the keys of the cluster',
  'keys rotate': 'changing the keys of the cluster',
  'keys status': apiServer,
  'image list': 'reading the images',
  'image pull': 'pulling the image',
  'image load': 'loading the archive',
  'image remove': 'removing the image',
  'auth why': apiServer,
  'node join': 'joining the cluster',
  'node list': apiServer,
  'node remove': 'removing the node',
  'server join': 'joining the cluster',
  'server list': apiServer,
  'server remove': 'removing the server',
  'etcd snapshot save': 'writing the snapshot',
  'etcd snapshot list': apiServer,
  'etcd snapshot restore': 'replacing the data of the member',
  'etcd defragment': 'defragmenting the members',
  'etcd reset': 'replacing the data of the member',
  trace: apiServer,
  'explain pod': apiServer,
  'explain traffic': apiServer,
  doctor: 'examining this machine',
};

/** Commands that show what they do themselves, or that do nothing which takes time. */
export const commandsWithoutProgress: ReadonlySet<string> = new Set(['dev', 'version', 'completion']);

/** Returns the words of a command after the program, such as `etcd snapshot save`. */
export function commandWords(command: Command): string {
  const words: string[] = [];
  for (let each: Command | null = command; each?.parent; each = each.parent) words.unshift(each.name());
  return words.join(' ');
}

/** Shows the progress of each command while it runs. */
export function addCommandProgress(root: Command): void {
  // the output of a detached process is the reason of its failure; the command that waits for it shows the progress
  if (process.send !== undefined) return;
  root.hook('preAction', (_, command) => {
    const step = commandSteps[commandWords(command)];
    if (step !== undefined) progress.step(step);
  });
  root.hook('postAction', () => progress.stop());
}
