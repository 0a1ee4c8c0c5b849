import { createSocket } from 'node:dgram';
import { realpathSync } from 'node:fs';
import { expect, it } from 'vitest';
import { busyboxImage } from '../../fixtures/test-image.ts';
import { untilValue } from '../../harness/until.ts';
import type { Body, TwoNodes } from './two-nodes.ts';

/** busybox does not support UDP, so pods run this machine's Node.js out of a volume. */
const node = realpathSync(process.execPath);
const inHost = (script: string, ...args: readonly (string | number)[]) => ['chroot', '/host', node, '-e', script, ...args.map(String)];
const port = 8080;

/** A server that returns its name for every datagram and, once it listens for those, over HTTP. */
const talk = `const name = require('os').hostname();
const socket = require('dgram').createSocket('udp4');
socket.on('message', (_, from) => socket.send(name, from.port, from.address));
socket.bind(${port}, () => require('http').createServer((_, response) => response.end(name + '\\n')).listen(${port}));`;
/** Sends a datagram and prints the response; prints nothing if there is none. */
const ask = `const socket = require('dgram').createSocket('udp4');
const [host, port] = process.argv.slice(1);
setTimeout(() => process.exit(), 3000);
socket.on('error', () => process.exit()).on('message', (said) => { console.log(String(said)); process.exit(); });
socket.send('who?', Number(port), host);`;

/** Sends a datagram from this process, which is on the first node, and returns the response; empty if there is none. */
function askFromNode(host: string): Promise<string> {
  const socket = createSocket('udp4');
  return new Promise<string>((resolve, reject) => {
    const late = setTimeout(() => resolve(''), 3_000);
    socket.on('error', reject).on('message', (message) => {
      clearTimeout(late);
      resolve(message.toString());
    });
    socket.send('who?', port, host);
  }).finally(() => socket.close());
}

/** Pods that use UDP: between pods, from nodes, and beside TCP at one port of a Service. */
export function datagramBehaviours(two: TwoNodes): void {
  const start = async (on: string) => {
    const name = `talker-${on}`;
    const main: Body = {
      name: 'main',
      image: busyboxImage,
      imagePullPolicy: 'IfNotPresent',
      command: inHost(talk),
      volumeMounts: [{ name: 'host', mountPath: '/host', readOnly: true }],
      readinessProbe: { httpGet: { path: '/', port }, periodSeconds: 1, timeoutSeconds: 10 },
    };
    await two.create(two.at('pods'), {
      metadata: { name, labels: { app: 'talker' } },
      spec: {
        nodeName: on,
        terminationGracePeriodSeconds: 0,
        containers: [main],
        volumes: [{ name: 'host', hostPath: { path: '/', type: 'Directory' } }],
      },
    });
    return two.readyPod(name);
  };
  let starting: ReturnType<typeof startAll> | undefined;
  const startAll = () => Promise.all(two.nodes.map(start));
  const talkers = () => (starting ??= startAll());
  /** Returns the name of the server that responds to a datagram from a pod on a node. */
  const responseOf = (on: string, host: string, at = port) =>
    two.cluster.kubectl.run(['-n', two.namespace, 'exec', `talker-${on}`, '--', ...inHost(ask, host, at)]).then((text) => text.trim());
  /** Waits until exactly these servers have responded. */
  const answered = (on: string, host: string, wanted: readonly string[], at = port) => {
    const seen = new Set<string>();
    return untilValue(
      `${wanted.join(', ')} at ${host}:${at}/UDP from ${on}`,
      async () => [...seen.add(await responseOf(on, host, at))].filter((by) => by !== '').sort(),
      (by) => by.join() === wanted.join(),
    );
  };

  it('Networking Granular Checks: Pods should function for intra-pod communication: udp', async () => {
    for (const { metadata, status } of await talkers()) for (const on of two.nodes) await answered(on, status.podIP ?? '', [metadata.name]);
  });

  it('Networking Granular Checks: Pods should function for node-pod communication: udp', async () => {
    for (const { metadata, status } of await talkers())
      await untilValue(
        `an answer of ${metadata.name}`,
        () => askFromNode(status.podIP ?? ''),
        (by) => by === metadata.name,
      );
  });

  it('Services should serve endpoints on same port and different protocols', async () => {
    const all = (await talkers()).map(({ metadata }) => metadata.name).sort();
    const exposed = (protocol: string) => ({ name: protocol.toLowerCase(), port: 80, targetPort: port, protocol });
    const { spec } = await two.service('protocols', { selector: { app: 'talker' }, ports: [exposed('TCP'), exposed('UDP')] });
    const expose = (...protocols: readonly string[]) =>
      two.merge(`${two.at('services')}/protocols`, { spec: { ports: protocols.map(exposed) } });
    const silent = (on: string) =>
      untilValue(
        'no answer to datagrams',
        () => responseOf(on, spec.clusterIP, 80),
        (by) => by === '',
      );

    for (const on of two.nodes) await two.answers(spec.clusterIP, all, { pod: `client-${on}` });
    for (const on of two.nodes) await answered(on, spec.clusterIP, all, 80);
    await expose('TCP');
    for (const on of two.nodes) await silent(on);
    for (const on of two.nodes) await two.answers(spec.clusterIP, all, { pod: `client-${on}` });
    await expose('UDP');
    for (const on of two.nodes) await answered(on, spec.clusterIP, all, 80);
    for (const on of two.nodes) await two.answers(spec.clusterIP, [''], { pod: `client-${on}` });
    expect(all).toHaveLength(2);
  });
}
