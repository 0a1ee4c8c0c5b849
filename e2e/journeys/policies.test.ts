import { beforeAll, describe, expect, it } from 'vitest';
import { busyboxImage } from '../fixtures/test-image.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { untilValue } from '../harness/until.ts';

const reason = await componentMissing.containerd();

const pod = (name: string, command: readonly string[]) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, labels: { app: 'policies', role: name } },
  spec: {
    terminationGracePeriodSeconds: 0,
    containers: [{ name: 'main', image: busyboxImage, command, ports: [{ name: 'http', containerPort: 8080 }] }],
  },
});
const policy = (name: string, spec: object) => ({ apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', metadata: { name }, spec });

describe.skipIf(reason !== undefined && !everythingIsNeeded)(
  `NetworkPolicies between pods on one bridge${reason === undefined ? '' : ` (${reason})`}`,
  () => {
    const machine = Machine.use();
    let cluster: Cluster;
    let address: string;
    /** Returns the response of the server to a pod, by address or by Service; empty after a timeout. */
    const ask = async (from: string, host = `${address}:8080`) =>
      (await cluster.kubectl.try(['exec', from, '--', 'timeout', '5', 'wget', '-q', '-O', '-', `http://${host}/`])).stdout.trim();
    const untilResponse = (from: string, answer: string, host?: string) =>
      untilValue(
        `${from} is told ${JSON.stringify(answer)}`,
        () => ask(from, host),
        (text) => text === answer,
      );

    beforeAll(async () => {
      const containerd = await machine.containerd();
      cluster = await machine.cluster({ spec: composition({ storage: 'memory', runtime: 'containerd', network: 'bridge', containerd }) });
      const serve = 'mkdir -p /tmp/www && echo here > /tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www';
      await cluster.kubectl.apply([
        pod('server', ['sh', '-c', serve]),
        pod('friend', ['sleep', '3600']),
        pod('stranger', ['sleep', '3600']),
        {
          apiVersion: 'v1',
          kind: 'Service',
          metadata: { name: 'server' },
          spec: { selector: { role: 'server' }, ports: [{ port: 80, targetPort: 'http' }] },
        },
      ]);
      await cluster.api.untilReady('default', 'policies', 3);
      address = (await cluster.api.get<{ status: { podIP: string } }>('/api/v1/namespaces/default/pods/server')).status.podIP;
    });

    it('allow all traffic until a policy selects the pod', async () => {
      await untilResponse('friend', 'here');
      await untilResponse('stranger', 'here');
      await untilResponse('stranger', 'here', 'server');
    });

    it('allow the peers of a policy, by address and by Service, and no others', async () => {
      await cluster.kubectl.apply([
        policy('friends', {
          podSelector: { matchLabels: { role: 'server' } },
          ingress: [{ from: [{ podSelector: { matchLabels: { role: 'friend' } } }], ports: [{ port: 'http' }] }],
        }),
      ]);
      await untilResponse('stranger', '');
      await untilResponse('friend', 'here');
      await untilResponse('friend', 'here', 'server');
      await untilResponse('stranger', '', 'server');
      expect(await ask('stranger')).toBe('');
    });

    it('are explained: which policy decides', async () => {
      const friend = await cluster.oarlock('explain', 'traffic', 'friend', 'default/server', 'http');
      expect(friend).toMatchObject({ code: 0, stdout: expect.stringMatching(/server \([\d.]+\) TCP 8080: allowed\n/) });
      expect(friend.stdout).toContain('ingress allowed by default/friends spec.ingress[0]');
      const stranger = await cluster.oarlock('explain', 'traffic', 'stranger', address, '8080/tcp');
      expect(stranger).toMatchObject({
        code: 1,
        stdout: expect.stringContaining('ingress denied: no rule of default/friends allows it'),
      });
      expect(await cluster.oarlock('explain', 'traffic', 'nobody', 'server', '80')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('pod default/nobody not found'),
      });
    });

    it('apply to a new pod from its first packet', async () => {
      await cluster.kubectl.apply([
        policy('locked', { podSelector: { matchLabels: { role: 'locked' } }, policyTypes: ['Egress'] }),
        // the pod retries until a connection succeeds, which would be at once without a policy
        pod('locked', ['sh', '-c', `until timeout 2 wget -q -O /tmp/got http://${address}:8080/; do touch /tmp/tried; done; sleep 3600`]),
      ]);
      await cluster.api.untilReady('default', 'policies', 4);
      await untilValue(
        'the pod has attempted a connection',
        async () => (await cluster.kubectl.try(['exec', 'locked', '--', 'ls', '/tmp'])).stdout,
        (text) => text.includes('tried'),
      );
      expect((await cluster.kubectl.try(['exec', 'locked', '--', 'ls', '/tmp'])).stdout).not.toContain('got\n');
    });

    it('allow all traffic again after the policy is deleted', async () => {
      await cluster.kubectl.run(['delete', 'networkpolicy', 'friends']);
      await untilResponse('stranger', 'here', 'server');
    });
  },
);
