import { createHash, randomInt, X509Certificate } from 'node:crypto';
import { secrets } from '@oarlock/api/resources';
import { adminAccess } from './common/admin-access.ts';
import { CommandError, exitCodes } from './common/command-error.ts';

const alphabet = 'abcdefghijklmnopqrstuvwxyz0123456789';
const random = (length: number) => Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join('');
const maxHours = 24 * 365;

/** Returns `sha256:<hex>` of the CA's public key, in the form of kubeadm's --discovery-token-ca-cert-hash. */
export function caHash(pem: string): string {
  return `sha256:${createHash('sha256')
    .update(new X509Certificate(pem).publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex')}`;
}

/** Creates a bootstrap token and prints the command that joins a node with it. */
export async function createToken(options: { readonly dataDir: string; readonly ttl: string }): Promise<void> {
  const hours = Number(options.ttl);
  if (!(hours > 0 && hours <= maxHours))
    throw new CommandError(`--ttl must be a number of hours above 0 and at most ${maxHours}, not ${options.ttl}`, exitCodes.usage);
  const access = await adminAccess(options.dataDir);
  try {
    const [id, secret] = [random(6), random(16)];
    await access.client.create(secrets, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace: 'kube-system', name: `bootstrap-token-${id}` },
      type: 'bootstrap.kubernetes.io/token',
      stringData: {
        'token-id': id,
        'token-secret': secret,
        expiration: new Date(Date.now() + hours * 3_600_000).toISOString(),
        'usage-bootstrap-authentication': 'true',
        'usage-bootstrap-signing': 'true',
        description: 'made by oarlock token create',
      },
    });
    const host = new URL(access.server).hostname;
    if (host === 'localhost' || host === '[::1]' || host.startsWith('127.'))
      console.error(
        `The API server listens on ${host} only, so no other machine can reach it: set spec.server.address to 0.0.0.0 in the cluster.yaml.`,
      );
    console.log(`oarlock node join --server ${access.server} --token ${id}.${secret} --ca-hash ${caHash(access.ca)}`);
  } finally {
    access.close();
  }
}
