import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from 'node:net';
import { beforeAll, describe, expect, it } from 'vitest';
import { componentMissing } from '../harness/component-availability.ts';
import { Machine, everythingIsNeeded } from '../harness/machine.ts';
import { netnsMissing } from '../harness/netns.ts';
import { until, untilValue } from '../harness/until.ts';
import { serverMachines, type ServerMachine } from './support/server-machines.ts';

const missing = componentMissing.etcd() ?? (await netnsMissing());
const account = '/var/run/secrets/kubernetes.io/serviceaccount';
type Step = 'add' | 'use' | 'end';

/** Returns the certificates of PEM text as they are, each without the white space around it. */
const certificatesOf = (pem: string): readonly string[] => pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
const isIssuedBy = (certificate: string, authority: string): boolean =>
  new X509Certificate(certificate).verify(new X509Certificate(authority).publicKey);
const accepts = (host: string, port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, host, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });

describe.skipIf(missing !== undefined && !everythingIsNeeded)(
  `a rotation of the cluster CA on three servers with a joined node${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  () => {
    const machine = Machine.use();
    let machines: readonly ServerMachine[];
    let first: string;
    let second: string;
    const at = (index: number): ServerMachine => {
      const found = machines[index];
      if (found === undefined) throw new Error(`there is no machine ${index}`);
      return found;
    };
    const servers = () => [at(0), at(1), at(2)];
    const node = () => at(3);

    const pki = (server: ServerMachine, name: string): Promise<string> =>
      readFile(join(server.dataDir, 'pki', name), 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return '';
        throw error;
      });
    const kubeletKubeconfig = () => readFile(join(node().dataDir, 'kubelet.kubeconfig'), 'utf8');
    const fieldOf = (text: string, field: string) => Buffer.from(new RegExp(`${field}: (\\S+)`).exec(text)?.[1] ?? '', 'base64').toString();
    const certificatesOfNode = async (): Promise<readonly string[]> => [
      fieldOf(await kubeletKubeconfig(), 'client-certificate-data'),
      await readFile(join(node().dataDir, 'kubelet-serving.crt'), 'utf8'),
    ];
    const trustedByNode = async () => certificatesOf(fieldOf(await kubeletKubeconfig(), 'certificate-authority-data'));
    const inPod = (server: ServerMachine, ...command: string[]) => server.kubectl.run(['exec', 'far', '--', ...command]);

    /** Takes a step, kills the server that takes it when it has begun to write its files, starts it again and repeats the step. */
    const takeInterrupted = async (step: Step) => {
      const states = () => Promise.all(['ca.crt', 'ca-next.crt', 'ca-former.crt', 'ca-removed.crt'].map((name) => pki(at(0), name)));
      const before = (await states()).join('|');
      const command = at(0).command('keys', 'ca', step);
      await until('the step has begun', async () => command.ended || (await states()).join('|') !== before, { everyMs: 1 });
      const when = command.ended ? 'after its end' : 'before its end';
      await Promise.all([command.stop('SIGKILL'), at(0).daemon.stop('SIGKILL')]);
      const fileCounts = (await states()).map((pem) => certificatesOf(pem).length).join();
      console.log(`killed the command ${step} ${when}; certificates of ca, ca-next, ca-former and ca-removed: ${fileCounts}`);
      await at(0).start();
      await untilValue(
        `the step ${step} is taken`,
        () => at(0).oarlock('keys', 'ca', step),
        (output) => output.includes('All servers have received the keys'),
      );
    };
    /** Restarts a server, which is killed while it starts. */
    const restartInterrupted = async (server: ServerMachine) => {
      await server.daemon.stop('SIGKILL');
      const starting = server.launch();
      await until('it listens', () => starting.ended || accepts(server.address, 6443));
      await starting.stop('SIGKILL');
      await server.start();
    };
    /** Restarts the node, which is killed when it writes its files, or when it is ready without having written them. */
    const restartNodeInterrupted = async () => {
      await node().daemon.stop('SIGKILL');
      const before = await kubeletKubeconfig();
      const starting = node().launch();
      const ready = starting.line(/^The node \S+ is ready at /).then(() => true);
      let isReady = false;
      ready.then(
        () => (isReady = true),
        () => undefined, // killed below
      );
      await until('its files change', async () => isReady || (await kubeletKubeconfig()) !== before, { everyMs: 1 });
      console.log(`killed the node ${isReady ? 'when it was ready' : 'when it wrote its files'}`);
      await starting.stop('SIGKILL');
      await node().startNode();
    };
    const takeEverywhere = async (step: Step) => {
      await takeInterrupted(step);
      for (const server of servers()) {
        await restartInterrupted(server);
        // a node that has not been restarted works with servers that have been
        await reachesThrough(server);
      }
      await restartNodeInterrupted();
      for (const server of servers()) await reachesThrough(server);
    };
    /** Checks log and exec, from an API server to the kubelet, with a kubeconfig of the server. */
    const reachesThrough = async (server: ServerMachine) => {
      await untilValue(
        `the log of the pod through ${server.name}`,
        () => server.kubectl.try(['logs', 'far', '--request-timeout=10s']),
        ({ stdout }) => stdout === 'hello\n',
      );
      expect((await inPod(server, 'echo', 'reached')).trim()).toBe('reached');
    };
    /** Checks that the pod's CA bundle is as expected, and that a client in the pod verifies every server with it. */
    const untilPodTrusts = async (authorities: readonly string[]) => {
      const sorted = (list: readonly string[]) => [...list].sort().join('\n');
      await untilValue(
        'the CA bundle in the pod',
        async () => sorted(certificatesOf(await inPod(at(0), 'cat', `${account}/ca.crt`))),
        (text) => text === sorted(authorities),
      );
      for (const { address } of servers()) {
        const script = `curl -sS --cacert ${account}/ca.crt -H "Authorization: Bearer $(cat ${account}/token)" https://${address}:6443/api`;
        expect(await inPod(at(0), 'sh', '-c', script)).toContain('APIVersions');
      }
    };

    beforeAll(async () => {
      machines = await serverMachines(machine, ['server-a', 'server-b', 'server-c', 'node-a']);
      await at(0).init({
        roles: ['apiserver', 'controllers', 'scheduler'],
        server: { address: at(0).address },
        network: 'network-host',
        storage: { use: 'storage-etcd', config: { managed: true } },
        encryption: {},
      });
      for (const server of servers().slice(1)) await server.join(at(0));
      const kubelet = { address: node().address, port: 10250, evictionHard: { diskAvailable: '1%', imageAvailable: '1%' } };
      await node().joinAsNode(at(0), {
        runtimes: ['runtime-process'],
        network: 'network-host',
        proxy: 'proxy-userspace',
        settings: { kubelet },
      });
      await at(0).kubectl.apply({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'far' },
        spec: {
          terminationGracePeriodSeconds: 1,
          containers: [{ name: 'main', image: 'host', command: ['sh', '-c', 'echo hello; exec sleep 36000'] }],
        },
      });
      await at(0).kubectl.run(['wait', '--for=condition=Ready', 'pod/far', '--timeout=180s']);
      first = (await pki(at(0), 'ca.crt')).trim();
      await untilPodTrusts([first]);
    });

    it('adds a CA that servers, node and pods trust, and that signs nothing yet', async () => {
      await takeEverywhere('add');
      second = (await pki(at(0), 'ca-next.crt')).trim();
      await untilValue('the CAs that the node trusts', trustedByNode, (list) => list.join() === [first, second].join());
      for (const certificate of await certificatesOfNode()) expect(isIssuedBy(certificate, first)).toBe(true);
      await untilPodTrusts([first, second]);
    });

    it('signs with the new CA: the node renews its client and serving certificates', async () => {
      await takeInterrupted('use');
      for (const server of servers()) await restartInterrupted(server);
      // the node still has certificates of the former CA
      for (const server of servers()) await reachesThrough(server);
      const rejected = await at(0).command('keys', 'ca', 'end').exit;
      expect(rejected).toBe(2);
      expect(await at(0).oarlock('keys', 'status')).toMatch(/^node-a +OTHER TRUSTED CA/m);
      await restartNodeInterrupted();
      await untilValue('the certificates of the node', certificatesOfNode, (list) =>
        list.every((certificate) => isIssuedBy(certificate, second)),
      );
      expect((await pki(at(0), 'ca.crt')).trim()).toBe(second);
      for (const server of servers()) await reachesThrough(server);
      await untilPodTrusts([first, second]);
      await untilValue(
        'the CA of the node in `keys status`',
        () => at(0).oarlock('keys', 'status'),
        (text) => /^node-a +signing CA/m.test(text),
      );
    });

    it('ends the trust in the former CA everywhere', async () => {
      const former = await readFile(at(0).kubeconfig, 'utf8');
      expect(isIssuedBy(fieldOf(former, 'client-certificate-data'), second)).toBe(true);
      await takeEverywhere('end');
      await untilValue('the CAs that the node trusts', trustedByNode, (list) => list.join() === second);
      await untilPodTrusts([second]);
      for (const certificate of await certificatesOfNode()) expect(isIssuedBy(certificate, second)).toBe(true);
      expect(await at(1).kubectl.run(['get', 'pod', 'far', '-o', 'jsonpath={.status.containerStatuses[0].restartCount}'])).toBe('0');
      const status = await at(2).oarlock('keys', 'status');
      expect(status.match(/^server-\S+ +Ready .* no *$/gm)).toHaveLength(3);
      await at(0).kubectl.run(['delete', 'pod', 'far']);
    });
  },
);
