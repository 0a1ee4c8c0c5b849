import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import type { Plugin } from '@oarlock/kernel/plugin';
import { Controllers } from '@oarlock/spi/controller';
import { Scheduling } from '@oarlock/spi/scheduling';
import { stringify } from 'yaml';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { bundle } from './bundle.ts';
import { componentFlags, componentManifests, healthPort, type ComponentKind, type ExportedComponent } from './component-manifests.ts';
import { eventRule, inspectPlugin, unsupportedNeeds } from './required-rules.ts';
import { dockerfile, exportedName, exportedNamespace, loadExported, readConfig, writeExport, type ExportOptions } from './write-export.ts';

export interface ComponentOptions extends ExportOptions {
  readonly replicas: number;
  readonly schedulerName?: string;
}

const slots = { controller: Controllers, scheduler: Scheduling } as const;
const defaultNamespace = 'oarlock-components';

/** Exports a controller or a scheduling plugin. @throws CommandError if the plugin cannot run as a program of its own */
export async function exportComponent(
  use: string,
  { kind, options }: { readonly kind: ComponentKind; readonly options: ComponentOptions },
): Promise<void> {
  const { plugin, source } = await loadExported(use);
  if (plugin.provides.token !== slots[kind].token)
    throw new CommandError(`${plugin.id} provides ${plugin.provides.id}; --${kind} exports plugins of ${slots[kind].id}`, exitCodes.usage);
  const missing = unsupportedNeeds(plugin);
  if (missing.length > 0)
    throw new CommandError(
      `${plugin.id} needs ${missing.join(' and ')}: an exported ${kind} has only a client, informers and events`,
      exitCodes.usage,
    );
  const config = await readConfig(options);
  const { rules } = inspectPlugin(plugin, config, options.reads);
  const name = exportedName(options, plugin);
  const exported: ExportedComponent = {
    kind,
    name,
    namespace: exportedNamespace(options, defaultNamespace),
    image: options.image ?? `${name}:latest`,
    config,
    rules: kind === 'controller' && !rules.includes(eventRule) ? [...rules, eventRule] : rules,
    replicas: options.replicas,
    schedulerName: options.schedulerName ?? name,
  };
  const files = new Map([
    ['image/Dockerfile', dockerfile(options.baseImage, healthPort)],
    ['image/server.cjs', await bundle(source, `component-server/serve-${kind}`)],
    ['config.json', `${JSON.stringify(config, null, 2)}\n`],
    ...[...componentManifests(exported)].map(
      ([file, list]) => [`manifests/${file}`, list.map((each) => stringify(each)).join('---\n')] as const,
    ),
    ['README.md', readme(exported, plugin)],
  ]);
  await writeExport(files, { output: options.output, image: exported.image, rules: exported.rules });
}

const describePermissions = ({ verbs, resources = [], resourceNames }: PolicyRule): string =>
  `${verbs.join(', ')} ${resources.join(', ')}${resourceNames === undefined ? '' : ` named ${resourceNames.join(', ')}`}`;

function readme(exported: ExportedComponent, plugin: Plugin): string {
  const { kind, name, namespace, image, rules, replicas, schedulerName } = exported;
  const does =
    kind === 'controller'
      ? 'The leader reconciles'
      : `The leader schedules the pods with \`schedulerName: ${schedulerName}\`, with Kubernetes' own plugins and this one`;
  const roles = kind === 'scheduler' ? ' It has the ClusterRoles `system:kube-scheduler` and `system:volume-scheduler`.' : '';
  const access = rules.length === 0 ? '' : ` It may ${rules.map(describePermissions).join('; ')}.`;
  return `# ${name}

The Oarlock plugin \`${plugin.id}\` as a ${kind} for any Kubernetes.

\`\`\`sh
docker build -t ${image} image/
docker push ${image}
kubectl apply -f manifests/
\`\`\`

${replicas} replicas run in the namespace \`${namespace}\`. ${does}; another replica takes over when the Lease \`${name}\` of the leader expires, 15 seconds
after its last renewal, or at once if the leader stops by SIGTERM.${roles}${access} A plugin that calls the API for more declares it:
\`declares: { rules: 'create,update | core | configmaps' }\`, and \`reads\` (or \`--reads\`) for resources that it reads without an informer of \`create\`.

The image contains only \`image/server.cjs\`: the plugin and the code that runs it. It runs as a non-root user with a read-only root file system, and serves
\`/healthz\`, \`/readyz\` and \`/metrics\` on port ${healthPort}. To run it without a pod, with the user of a kubeconfig:

\`\`\`sh
node image/server.cjs --kubeconfig FILE --config config.json --address 127.0.0.1 ${componentFlags(exported).join(' ')}
\`\`\`
`;
}
