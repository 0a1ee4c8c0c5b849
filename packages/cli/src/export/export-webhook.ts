import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openKeys } from '@oarlock/cluster/pki/keys';
import { slotName } from '@oarlock/kernel/slot';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { AdmissionPlugin } from '@oarlock/spi/admission';
import type { KeyPair } from '@oarlock/spi/cluster';
import { stringify } from 'yaml';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { bundle } from './bundle.ts';
import { inspectPlugin, unsupportedNeeds } from './required-rules.ts';
import { listensAt, manifestsOf, type Exported } from './webhook-manifests.ts';
import { dockerfile, exportedName, exportedNamespace, loadExported, readConfig, writeExport, type ExportOptions } from './write-export.ts';

export interface WebhookOptions extends ExportOptions {
  readonly failurePolicy: string;
  readonly timeout: number;
  readonly url?: string;
}

const validDays = 3_650;
const slots = ['admission', 'authn', 'authz'] as const;
/**
 * Namespaces of the exported servers. Servers of authn and authz plugins use the host network, which the restricted namespace of admission webhooks
 * forbids.
 */
const namespaces = { admission: 'oarlock-webhooks', authn: 'oarlock-control-plane', authz: 'oarlock-control-plane' } as const;

/** Exports a plugin as a webhook. @throws CommandError if the plugin cannot be a webhook */
export async function exportWebhook(use: string, options: WebhookOptions): Promise<void> {
  const { plugin, source } = await loadExported(use);
  const slot = slots.find((each) => each === slotName(plugin.provides.id));
  if (slot === undefined)
    throw new CommandError(
      `${plugin.id} provides ${plugin.provides.id}; only ${slots.join(', ')} plugins can be webhooks`,
      exitCodes.usage,
    );
  const missing = unsupportedNeeds(plugin);
  if (missing.length > 0)
    throw new CommandError(
      `${plugin.id} needs ${missing.join(' and ')}: a webhook provides only a client, informers and events`,
      exitCodes.usage,
    );
  const config = await readConfig(options);
  const { instance, rules } = inspectPlugin(plugin, config, options.reads);
  const name = exportedName(options, plugin);
  const { url } = options;
  const namespace = exportedNamespace(options, namespaces[slot]);
  const tls = await certificateFor([`${name}.${namespace}.svc`, `${name}.${namespace}.svc.cluster.local`, 'localhost'], url);
  const exported: Exported = {
    slot,
    name,
    namespace,
    image: options.image ?? `${name}:latest`,
    config,
    rules,
    ca: tls.ca,
    certificate: tls.certificate,
    key: tls.key,
    failurePolicy: policyOf(options.failurePolicy),
    timeoutSeconds: options.timeout,
    needsClient: Object.keys(plugin.needs).length > 0,
    ...(url !== undefined && { url }),
  };
  const files = new Map([
    ['image/Dockerfile', dockerfile(options.baseImage, 8443)],
    ['image/server.cjs', await bundle(source, 'webhook-server/serve')],
    ['config.json', `${JSON.stringify(config, null, 2)}\n`],
    ['tls/ca.crt', tls.ca],
    ['tls/tls.crt', tls.certificate],
    ['tls/tls.key', tls.key],
    ...[...manifestsOf(exported, slot === 'admission' ? (instance as AdmissionPlugin) : undefined)].map(
      ([file, list]) => [`manifests/${file}`, list.map((each) => stringify(each)).join('---\n')] as const,
    ),
    ...(slot === 'admission' ? [] : [['webhook.kubeconfig', kubeconfigOf(exported, slot)] as const]),
    ['README.md', readme(exported, plugin)],
  ]);
  const secrets = [...files.keys()].filter((path) => path.startsWith('tls/') || path.endsWith('30-server.yaml'));
  await writeExport(files, { output: options.output, image: exported.image, rules, secrets });
}

function policyOf(text: string): 'Fail' | 'Ignore' {
  if (text === 'Fail' || text === 'Ignore') return text;
  throw new CommandError(`--failure-policy must be Fail or Ignore, not ${JSON.stringify(text)}`, exitCodes.usage);
}

/** Issues a certificate from a new CA and discards the CA's key: each export has another CA. */
async function certificateFor(dnsNames: readonly string[], url: string | undefined): Promise<KeyPair & { readonly ca: string }> {
  const scratch = await mkdtemp(join(tmpdir(), 'oarlock-export-'));
  try {
    const { keys } = await openKeys(scratch, 'https://nobody');
    const host = url === undefined ? undefined : new URL(url).hostname.replace(/^\[|\]$/g, '');
    const isAddress = host !== undefined && /^[\d.]+$|:/.test(host);
    const pair = await keys.issue({
      commonName: dnsNames[0] ?? 'webhook',
      dnsNames: [...dnsNames, ...(host === undefined || isAddress ? [] : [host])],
      ipAddresses: ['127.0.0.1', '::1', ...(isAddress ? [host] : [])],
      usages: ['server'],
      days: validDays,
    });
    return { ...pair, ca: keys.caBundle };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

const serverOf = (exported: Exported): string => exported.url ?? `https://127.0.0.1:${listensAt(exported)}`;

function kubeconfigOf(exported: Exported, slot: 'authn' | 'authz'): string {
  const path = slot === 'authn' ? '/authenticate' : '/authorize';
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: exported.name,
        cluster: {
          server: `${serverOf(exported).replace(/\/$/, '')}${path}`,
          'certificate-authority-data': Buffer.from(exported.ca).toString('base64'),
        },
      },
    ],
    users: [{ name: 'apiserver', user: {} }],
    contexts: [{ name: 'webhook', context: { cluster: exported.name, user: 'apiserver' } }],
    'current-context': 'webhook',
  });
}

function readme(exported: Exported, plugin: Plugin): string {
  const { slot, name, namespace, image, rules, needsClient } = exported;
  const flag = slot === 'authn' ? '--authentication-token-webhook-config-file' : '--authorization-webhook-config-file';
  const register =
    slot === 'admission'
      ? `The last manifest registers the webhook. Pods of the namespace \`${namespace}\` are exempt from it.`
      : `The pods listen on 127.0.0.1:${listensAt(exported)} of the nodes with the label \`node-role.kubernetes.io/control-plane\`. Pass \`webhook.kubeconfig\` to the API server: \`${flag}=FILE\`${
          slot === 'authn'
            ? ' and `--authentication-token-webhook-version=v1`'
            : ' and `--authorization-webhook-version=v1`, with `Webhook` in `--authorization-mode`'
        }. In Oarlock use the plugin \`${slot}-webhook\` with \`kubeconfigFile\`.`;
  const access =
    rules.length === 0
      ? needsClient
        ? 'The server has an API client but no permissions: name what it reads with `--reads`, or in the plugin (`declares: { reads: "configmaps" }`).'
        : 'The server does not call the API.'
      : `The server may ${rules.map(({ verbs, resources: names = [] }) => `${verbs.join(', ')} ${names.join(', ')}`).join('; ')}.`;
  return `# ${name}

The Oarlock plugin \`${plugin.id}\` as a webhook for any Kubernetes.

\`\`\`sh
docker build -t ${image} image/
docker push ${image}
kubectl apply -f manifests/
\`\`\`

${register} ${access}

The image contains only \`image/server.cjs\`: the plugin and its server. It runs as a non-root user with a read-only root file system.
To run it without a cluster${needsClient ? ' (but with a kubeconfig of one)' : ''}:

\`\`\`sh
node image/server.cjs --port ${listensAt(exported)} --address 127.0.0.1 --config config.json --tls tls${needsClient ? ' --kubeconfig FILE' : ''}
\`\`\`

The certificate is valid for ten years. The key of its CA was deleted; another export creates a new CA and certificate. If the certificate in the
Secret is renewed, the server loads it while it runs; update \`caBundle\` if its CA differs. Keep \`tls/\` and \`manifests/30-server.yaml\` secret.
`;
}
