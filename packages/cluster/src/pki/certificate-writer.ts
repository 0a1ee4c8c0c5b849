import { createHash, createPrivateKey, createPublicKey, randomBytes, sign, X509Certificate, type KeyObject } from 'node:crypto';
import { isIP, isIPv4 } from 'node:net';
import type { CertificateRequest, KeyPair } from '@oarlock/spi/cluster';
import { bits, content, der, integer, none, octets, oid, sequence, set, time, utf8, within, yes, type Der } from './internal/der.ts';

const dayMs = 86_400_000;
const backdateMs = 5 * 60_000; // allowance for clocks of joining machines that are slow
const caDays = 3650;
const leafDays = 365;

/** Signature algorithms by curve. Generated keys use P-256; a CA that was created elsewhere may use another curve. */
const algorithms: Readonly<Record<string, readonly [hash: string, id: string]>> = {
  prime256v1: ['sha256', '1.2.840.10045.4.3.2'],
  secp384r1: ['sha384', '1.2.840.10045.4.3.3'],
  secp521r1: ['sha512', '1.2.840.10045.4.3.4'],
};
function algorithmOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): { readonly hash: string; readonly id: Der } {
  if (asymmetricKeyType === 'rsa') return { hash: 'sha256', id: sequence(oid('1.2.840.113549.1.1.11'), none()) };
  const [hash, id] = algorithms[asymmetricKeyDetails?.namedCurve ?? ''] ?? [];
  if (asymmetricKeyType !== 'ec' || hash === undefined || id === undefined)
    throw new Error(`a key of type ${asymmetricKeyType} cannot sign certificates: RSA keys and those on NIST curves can`);
  return { hash, id: sequence(oid(id)) };
}

/** Creates a self-signed CA certificate for a key. */
export function selfSigned(commonName: string, key: string): KeyPair {
  const own = createPrivateKey(key);
  const publicKey = spkiOf(own);
  const name = nameOf([], commonName);
  const extensions = [
    extension('2.5.29.19', sequence(yes()), true),
    extension('2.5.29.15', bits(Buffer.from([0b1000_0110]), 1), true), // digitalSignature, keyCertSign, cRLSign
    extension('2.5.29.14', octets(identifierOf(publicKey))),
  ];
  return { certificate: certificate(own, { issuer: name, subject: name, days: caDays, publicKey, extensions }), key };
}

/**
 * Signs a certificate for a public key (a DER SubjectPublicKeyInfo) with a CA key. Returns the certificate in PEM (RFC 5280).
 * @throws Error if the request contains a name that a certificate cannot contain
 */
export function signLeaf(ca: KeyPair, publicKey: Uint8Array, request: CertificateRequest): string {
  const { subject, publicKey: caKey } = partsOf(ca.certificate);
  const names = [...(request.dnsNames ?? []).map(dnsName), ...(request.ipAddresses ?? []).map(address)];
  const extensions = [
    extension('2.5.29.19', sequence(), true),
    extension('2.5.29.15', bits(Buffer.from([0b1010_0000]), 5), true), // digitalSignature, keyEncipherment
    extension('2.5.29.37', sequence(...request.usages.map((usage) => oid(usage === 'server' ? '1.3.6.1.5.5.7.3.1' : '1.3.6.1.5.5.7.3.2')))),
    extension('2.5.29.14', octets(identifierOf(publicKey))),
    extension('2.5.29.35', sequence(der(0x80, identifierOf(caKey)))),
    ...(names.length > 0 ? [extension('2.5.29.17', sequence(...names))] : []),
  ];
  return certificate(createPrivateKey(ca.key), {
    issuer: subject,
    subject: nameOf(request.organizations ?? [], request.commonName),
    days: request.days ?? leafDays,
    publicKey,
    extensions,
  });
}

/** Returns the SubjectPublicKeyInfo of a private key. */
export const spkiOf = (key: KeyObject): Buffer => createPublicKey(key).export({ type: 'spki', format: 'der' });

interface Contents {
  readonly issuer: Der;
  readonly subject: Der;
  readonly days: number;
  readonly publicKey: Uint8Array;
  readonly extensions: readonly Der[];
}

function certificate(signer: KeyObject, { issuer, subject, days, publicKey, extensions }: Contents): string {
  const { hash, id } = algorithmOf(signer);
  const now = Date.now();
  const life = sequence(time(new Date(now - backdateMs)), time(new Date(now + days * dayMs)));
  const version = der(0xa0, integer(Buffer.from([2])));
  const signed = sequence(version, integer(serial()), id, issuer, life, subject, publicKey, der(0xa3, sequence(...extensions)));
  const whole = sequence(signed, id, bits(sign(hash, signed, signer)));
  return `-----BEGIN CERTIFICATE-----\n${whole.toString('base64').replaceAll(/.{64}(?=.)/g, '$&\n')}\n-----END CERTIFICATE-----\n`;
}

// the first bit stays clear: serial numbers are positive (RFC 5280, 4.1.2.2)
function serial(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x01;
  return bytes;
}

const attribute = (id: string, value: string) => set(sequence(oid(id), utf8(value)));
const nameOf = (organizations: readonly string[], commonName: string): Der =>
  sequence(...organizations.map((each) => attribute('2.5.4.10', each)), attribute('2.5.4.3', commonName));

const extension = (id: string, value: Der, critical = false): Der => sequence(oid(id), ...(critical ? [yes()] : []), octets(value));

function dnsName(name: string): Der {
  if (!/^[\x21-\x7e]+$/.test(name)) throw new Error(`a certificate cannot be for the DNS name ${JSON.stringify(name)}: ASCII only`);
  return der(0x82, Buffer.from(name, 'latin1'));
}

function address(text: string): Der {
  if (isIP(text) === 0 || text.includes('%')) throw new Error(`a certificate cannot be for ${JSON.stringify(text)}: not an IP address`);
  return der(0x87, isIPv4(text) ? Buffer.from(text.split('.').map(Number)) : sixteen(text));
}

function sixteen(text: string): Buffer {
  const last = text.slice(text.lastIndexOf(':') + 1);
  const [a = 0, b = 0, c = 0, d = 0] = last.split('.').map(Number);
  const plain = isIPv4(last) ? `${text.slice(0, -last.length)}${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}` : text;
  const [left = [], right = []] = plain.split('::').map((half) => (half === '' ? [] : half.split(':')));
  const groups = [...left, ...Array<string>(8 - left.length - right.length).fill('0'), ...right];
  return Buffer.from(groups.map((group) => group.padStart(4, '0')).join(''), 'hex');
}

/** Returns the key identifier: the SHA-1 of the key's bits (RFC 5280, 4.2.1.2, method 1). */
function identifierOf(publicKey: Uint8Array): Buffer {
  const [, key = none()] = within(publicKey);
  return createHash('sha1').update(content(key).subarray(1)).digest();
}

/** Returns the public key of a certificate, and its subject exactly as the CA encoded it. */
function partsOf(pem: string): { readonly subject: Der; readonly publicKey: Buffer } {
  const parsed = new X509Certificate(pem);
  const [signed = none()] = within(parsed.raw);
  const fields = within(signed);
  // a certificate of version 1 has no version field
  const subject = fields[fields[0]?.[0] === 0xa0 ? 5 : 4];
  if (subject === undefined) throw new Error('the certificate of the CA has no subject');
  return { subject, publicKey: parsed.publicKey.export({ type: 'spki', format: 'der' }) };
}
