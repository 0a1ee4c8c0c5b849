import { expect, it } from 'vitest';
import type { NodeWorkbench } from '../node-workbench.ts';
import { until } from '../../harness/until.ts';

const mount = '/var/run/secrets/kubernetes.io/serviceaccount';
const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<string, never>;

/** Tokens in pods. Other behaviors of sig-auth need no node and are in packages/testing. */
export function serviceAccountBehaviours(bench: NodeWorkbench): void {
  const review = (token: string) =>
    bench.api.json<{ status: { authenticated?: boolean; user?: { username: string; extra?: Record<string, string[]> } } }>(
      'POST',
      '/apis/authentication.k8s.io/v1/tokenreviews',
      { body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token } } },
    );

  it('ServiceAccounts should mount an API token into pods [Conformance]', async () => {
    const account = bench.name('mounted');
    await bench.create(bench.at('serviceaccounts'), { metadata: { name: account } });
    const { metadata } = await bench.start({ serviceAccountName: account, containers: [bench.container('sleep 600')] });
    const read = (file: string) => bench.exec(metadata.name, 'cat', `${mount}/${file}`);
    const [token, namespace, ca] = (await Promise.all(['token', 'namespace', 'ca.crt'].map(read))) as [string, string, string];
    expect(namespace).toBe(bench.namespace);
    expect(ca).toContain('BEGIN CERTIFICATE');
    // the token is bound to the pod, and valid as long as the pod exists
    expect(claimsOf(token)['kubernetes.io']).toMatchObject({ pod: { name: metadata.name }, serviceaccount: { name: account } });
    const known = (await review(token)).status;
    expect(known.user?.username).toBe(`system:serviceaccount:${bench.namespace}:${account}`);
    expect(known.user?.extra?.['authentication.kubernetes.io/pod-name']).toEqual([metadata.name]);
    bench.forget(metadata.name);
    await until('the token is invalid after its pod is deleted', async () => (await review(token)).status.authenticated !== true);
  });

  it('ServiceAccounts should mount projected service account token [Conformance]', async () => {
    const script = 'cat /projected/token';
    const log = await bench.outputOf({
      containers: [bench.container(script, { volumeMounts: [{ name: 'p', mountPath: '/projected' }] })],
      volumes: [
        { name: 'p', projected: { sources: [{ serviceAccountToken: { path: 'token', audience: 'vault', expirationSeconds: 3600 } }] } },
      ],
    });
    expect(claimsOf(log)).toMatchObject({ aud: ['vault'], sub: `system:serviceaccount:${bench.namespace}:default` });
    // its audience is another service
    expect((await review(log)).status.authenticated).not.toBe(true);
  });
}
