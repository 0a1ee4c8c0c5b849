import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { selfSigned } from '@oarlock/cluster/pki/certificate-writer';
import { openKeys } from '@oarlock/cluster/pki/keys';
import { newCertificateRequest } from '@oarlock/cluster/pki/node-csr';
import type { FuzzTarget } from './engine.ts';
import { mutatedBytes, mutatedText } from './inputs.ts';

const target = <T>(each: FuzzTarget<T>): FuzzTarget => each as FuzzTarget;

export const ca = selfSigned(
  'fuzz',
  generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
);
const { csr, key } = await newCertificateRequest({ nodeName: 'a', names: ['a', '127.0.0.1'] });
/** Parsing the PEM for each signature takes longer than the signature. */
const privateKey = createPrivateKey(key);

let directory: string | undefined;
/** Removes the files of the targets. */
export const cleanUp = (): void => {
  if (directory !== undefined) rmSync(directory, { recursive: true });
};
let opened: ReturnType<typeof openKeys> | undefined;
function fuzzKeys(): ReturnType<typeof openKeys> {
  directory ??= mkdtempSync(join(tmpdir(), 'oarlock-fuzz-'));
  opened ??= openKeys(join(directory, 'pki'), 'https://issuer.example');
  return opened;
}
async function signRequest(text: string): Promise<void> {
  const { keys } = await fuzzKeys();
  await keys.sign(text, { commonName: 'a', usages: ['client'] });
}
/** The signer rejects every request that it cannot read or verify. */
const isRejection = (error: unknown): boolean =>
  error instanceof Error && !(error instanceof RangeError && error.message.includes('call stack'));

/** Returns a DER element. */
function element(tag: number, content: Uint8Array): Buffer {
  const { length } = content;
  const head = length < 0x80 ? [tag, length] : length < 0x100 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from(head), content]);
}
/** Returns the content of the DER element at the start of some bytes. */
function contentOf(der: Buffer): Buffer {
  const short = der[1] ?? 0;
  const lengthBytes = short < 0x80 ? 0 : short & 0x7f;
  const length = lengthBytes === 0 ? short : der.readUIntBE(2, lengthBytes);
  return der.subarray(2 + lengthBytes, 2 + lengthBytes + length);
}
const [sequence, bitString] = [0x30, 0x03];
const requestInfo = contentOf(contentOf(Buffer.from(csr.replaceAll(/-----[^-]+-----|\s/g, ''), 'base64')));
const ecdsaWithSha256 = Buffer.from('300a06082a8648ce3d040302', 'hex');
/** Certificate requests in PEM whose signature is valid, whatever they contain. */
const signedRequests = mutatedBytes(requestInfo).map((content) => {
  const info = element(sequence, content);
  const signature = element(bitString, Buffer.concat([Buffer.of(0), sign('sha256', info, privateKey)]));
  const base64 = element(sequence, Buffer.concat([info, ecdsaWithSha256, signature])).toString('base64');
  return `-----BEGIN CERTIFICATE REQUEST-----\n${base64.replaceAll(/.{64}/g, '$&\n')}\n-----END CERTIFICATE REQUEST-----\n`;
});

/** The parsers of certificate requests. */
export const certificateTargets: readonly FuzzTarget[] = [
  target({ name: 'certificate requests', inputs: mutatedText(csr, ca.certificate), parse: signRequest, isRejection }),
  target({ name: 'signed certificate requests', inputs: signedRequests, parse: signRequest, isRejection }),
];
