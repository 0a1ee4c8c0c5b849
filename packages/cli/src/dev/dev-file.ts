import { basename, dirname, resolve } from 'node:path';
import { sectionOf, insertPlugin } from '@oarlock/cluster/cluster-file/insert-plugin';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { clusterSchema, type ClusterSpec, type PlacementSpec } from '@oarlock/cluster/cluster-file/cluster-schema';
import { placementsOf, sections } from '@oarlock/cluster/cluster-file/sections';
import { loadPlugin } from '@oarlock/cluster/plugins/plugin-loader';
import { WiringError } from '@oarlock/kernel/errors';
import { describeError } from '../common/command-error.ts';
import { changedKeys, withoutConfigs } from './changed-keys.ts';
import { FileWatch } from './source/file-watch.ts';
import type { Reloader } from './reloader.ts';
import type { Colors } from './terminal-colors.ts';

/**
 * Returns a cluster file with storage in memory and with the given plugins added to their sections. The base is the file in the options or, without
 * a file, a cluster with one simulated node.
 */
export async function devFile(plugins: readonly string[], file: string | undefined): Promise<ClusterFile> {
  const read = file === undefined ? undefined : await readClusterFile(file);
  const { spec } =
    read ??
    clusterSchema.parse({
      apiVersion: 'oarlock.dev/v1',
      kind: 'Cluster',
      spec: {
        roles: ['apiserver', 'controllers', 'scheduler', 'kubelet'],
        runtimes: ['runtime-simulated'],
        paths: ['console'],
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
    if (!section.roles.some((role) => spec.roles.includes(role)))
      throw new WiringError([
        {
          code: 'WrongSlot',
          message: `${path} provides ${loaded.plugin.provides.id}, which runs in the role ${section.roles.join(' or ')}: this cluster has the roles ${spec.roles.join(', ')}. Use -f with a cluster.yaml that has the role`,
        },
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

/** Reloads plugins under development when their config in the cluster.yaml changes. Reports other changes of the file, which need a restart. */
export function followConfig(
  file: string | undefined,
  {
    plugins,
    reloader,
    paint,
    print,
    running,
  }: {
    readonly plugins: readonly string[];
    readonly reloader: Reloader;
    readonly paint: Colors;
    print(text: string): void;
    readonly running: ClusterSpec;
  },
): FileWatch | undefined {
  if (file === undefined) return undefined;
  const path = resolve(file);
  const watch = new FileWatch(() => {
    devFile(plugins, file)
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
