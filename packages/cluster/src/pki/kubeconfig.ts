import { stringify } from 'yaml';
import type { KeyPair } from '@oarlock/spi/cluster';

const base64 = (text: string) => Buffer.from(text).toString('base64');

/** Returns a kubeconfig with all data inline, so that it can be copied to another machine. */
export function kubeconfig(input: {
  readonly cluster: string;
  readonly server: string;
  readonly ca: string;
  readonly user: string;
  readonly client: KeyPair;
}): string {
  const context = `${input.user}@${input.cluster}`;
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    preferences: {},
    clusters: [{ name: input.cluster, cluster: { server: input.server, 'certificate-authority-data': base64(input.ca) } }],
    users: [
      {
        name: input.user,
        user: { 'client-certificate-data': base64(input.client.certificate), 'client-key-data': base64(input.client.key) },
      },
    ],
    contexts: [{ name: context, context: { cluster: input.cluster, user: input.user } }],
    'current-context': context,
  });
}
