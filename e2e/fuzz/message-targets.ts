import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { credentialsOf } from '@oarlock/apiserver/authentication/authentication';
import { impersonate } from '@oarlock/apiserver/authentication/impersonation';
import { LocalConnection } from '@oarlock/kubelet/server/http/local-connection';
import { NftError } from '@oarlock/nftables/nft';
import { countsOf } from '@oarlock/nftables/object-counts';
import { OciError } from '@oarlock/oci/oci-error';
import { parseManifest, selectManifest } from '@oarlock/oci/content/manifest';
import { parseImageConfig } from '@oarlock/oci/images/parse-image-config';
import { parseReference } from '@oarlock/oci/reference';
import { parseChallenges } from '@oarlock/oci/registry/challenge';
import type { FuzzTarget } from './engine.ts';
import { mutatedText } from './inputs.ts';

const digest = `sha256:${'a'.repeat(64)}`;
const descriptor = { mediaType: 'application/vnd.oci.image.manifest.v1+json', digest, size: 7 };
const index = JSON.stringify({
  schemaVersion: 2,
  mediaType: 'application/vnd.oci.image.index.v1+json',
  manifests: [{ ...descriptor, platform: { os: 'linux', architecture: 'arm64', variant: 'v8' }, annotations: { a: 'b' } }],
});
const manifest = JSON.stringify({
  schemaVersion: 2,
  config: { ...descriptor, mediaType: 'application/vnd.oci.image.config.v1+json' },
  layers: [{ ...descriptor, mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip' }],
});
const imageConfig = JSON.stringify({
  os: 'linux',
  architecture: 'amd64',
  config: {
    Entrypoint: ['/a'],
    Cmd: ['b'],
    Env: ['A=b'],
    User: '1:2',
    Labels: { a: 'b' },
    Volumes: { '/v': {} },
    ExposedPorts: { '80/tcp': {} },
  },
  rootfs: { type: 'layers', diff_ids: [digest] },
});
const isOciError = (error: unknown): boolean => error instanceof OciError;

let failure: unknown;
let served = 0;
const server = createServer({ maxHeaderSize: 96 * 1024 }, (request: IncomingMessage, response: ServerResponse) => {
  const { headers, rawHeaders } = request;
  const connection = { certificate: () => undefined, frontProxyCertificate: () => undefined, remoteAddress: '127.0.0.1' };
  const identity = { name: 'a', groups: [] };
  const fail = (error: unknown) => {
    failure = error;
  };
  try {
    credentialsOf({ headers, rawHeaders, connection } as never, '/');
    Promise.resolve(impersonate(rawHeaders, identity, [], { kind: 'path', identity, verb: 'get', path: '/' })).catch(fail);
  } catch (error) {
    fail(error);
  }
  response.end();
});

/** Serves one connection with Node's parser and reads the headers as the API server does. Resolves when the connection has ended. */
async function readHead(text: string): Promise<void> {
  failure = undefined;
  const [near, far] = LocalConnection.pair();
  near.on('error', () => {});
  far.on('error', () => {});
  server.emit('connection', far);
  near.resume();
  near.end(Buffer.from(text, 'latin1'));
  const closed = new Promise((resolve) => far.once('close', resolve));
  setImmediate(() => setImmediate(() => far.destroy()));
  await closed;
  near.destroy();
  // Node releases what belonged to a connection when the event loop is idle
  if ((served += 1) % 256 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  if (failure !== undefined) throw failure;
}

const target = <T>(each: FuzzTarget<T>): FuzzTarget => each as FuzzTarget;

/** Parsers of messages of clients, registries and programs. */
export const messageTargets: readonly FuzzTarget[] = [
  target({
    name: 'HTTP heads',
    inputs: mutatedText(
      'GET /api HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer abc.def.ghi\r\nImpersonate-User: u\r\nImpersonate-Extra-a%2fb: c\r\n\r\n',
      'POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n0\r\nT: v\r\n\r\n',
      'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YQ\r\n\r\n',
    ),
    parse: readHead,
    isRejection: () => false,
  }),
  target({
    name: 'nft output',
    inputs: mutatedText(
      '{"nftables":[{"metainfo":{"version":"1.0.6"}},{"set":{"family":"inet","name":"s","elem":["10.0.0.1",{"range":["a","b"]}]}},{"rule":{"expr":[{"accept":null}]}}]}',
    ),
    parse: (text) => countsOf(text),
    isRejection: (error) => error instanceof NftError,
  }),
  target({
    name: 'OCI manifests',
    inputs: mutatedText(index, manifest),
    parse(text) {
      const parsed = parseManifest(Buffer.from(text), undefined);
      if ('manifests' in parsed) selectManifest(parsed, { os: 'linux', architecture: 'arm64' });
    },
    isRejection: isOciError,
  }),
  target({
    name: 'image configs',
    inputs: mutatedText(imageConfig),
    parse: (text) => parseImageConfig(Buffer.from(text)),
    isRejection: isOciError,
  }),
  target({
    name: 'image references',
    inputs: mutatedText('registry.example.com:5000/team/app_x--y:1.2@' + digest, 'busybox', '[::1]:5000/a/b:c'),
    parse: (text) => parseReference(text),
    isRejection: isOciError,
  }),
  target({
    name: 'registry challenges',
    inputs: mutatedText('Bearer realm="https://auth.example.com/token",service="r",scope="repository:a/b:pull", Basic realm="x\\"y"'),
    parse: (text) => parseChallenges(text),
    isRejection: () => false,
  }),
];
