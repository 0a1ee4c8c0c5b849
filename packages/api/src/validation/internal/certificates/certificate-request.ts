import { constants, createPublicKey, verify, type KeyObject } from 'node:crypto';
import { pemBlocks } from '../../../values/pem.ts';

/** The value of a DER element; `whole` includes its tag and length. */
interface Element {
  readonly tag: number;
  readonly whole: Buffer;
  readonly content: Buffer;
  readonly rest: Buffer;
}
class Asn1Error extends Error {}

const sequence = 0x30;
const objectIdentifier = 0x06;
const bitString = 0x03;
const integer = 0x02;

/** Reads the first element. @throws Asn1Error in the words of Go's encoding/asn1 */
function readElement(data: Buffer, wanted: number): Element {
  if (data.length === 0) throw new Asn1Error('asn1: syntax error: sequence truncated');
  const [tag = 0] = data;
  let length = data[1] ?? 0;
  let start = 2;
  if (data.length < start) throw new Asn1Error('asn1: syntax error: truncated tag or length');
  if (length > 0x80) {
    const bytes = length & 0x7f;
    if (bytes > 4) throw new Asn1Error('asn1: structure error: length too large');
    if (data.length < start + bytes) throw new Asn1Error('asn1: syntax error: truncated tag or length');
    length = data.readUIntBE(start, bytes);
    start += bytes;
  } else if (length === 0x80) throw new Asn1Error('asn1: syntax error: indefinite length found (not DER)');
  if (tag !== wanted) throw new Asn1Error("asn1: structure error: tags don't match");
  const end = start + length;
  if (data.length < end) throw new Asn1Error('asn1: syntax error: data truncated');
  return { tag, whole: data.subarray(0, end), content: data.subarray(start, end), rest: data.subarray(end) };
}

interface SignatureAlgorithm {
  readonly hash: string | null;
  readonly keyType: 'RSA' | 'ECDSA' | 'Ed25519';
}
/** Signature algorithms by their encoded object identifier. SHA-1 is accepted in requests, as Go does. */
const algorithms: ReadonlyMap<string, SignatureAlgorithm> = new Map([
  ['2a864886f70d010105', { hash: 'sha1', keyType: 'RSA' }],
  ['2a864886f70d01010b', { hash: 'sha256', keyType: 'RSA' }],
  ['2a864886f70d01010c', { hash: 'sha384', keyType: 'RSA' }],
  ['2a864886f70d01010d', { hash: 'sha512', keyType: 'RSA' }],
  ['2a8648ce3d0401', { hash: 'sha1', keyType: 'ECDSA' }],
  ['2a8648ce3d040302', { hash: 'sha256', keyType: 'ECDSA' }],
  ['2a8648ce3d040303', { hash: 'sha384', keyType: 'ECDSA' }],
  ['2a8648ce3d040304', { hash: 'sha512', keyType: 'ECDSA' }],
  ['2b6570', { hash: null, keyType: 'Ed25519' }],
]);
const pss = '2a864886f70d01010a';
/** The hashes of RSASSA-PSS parameters, by their encoded object identifier. */
const pssHashes: ReadonlyMap<string, string> = new Map([
  ['608648016503040201', 'sha256'],
  ['608648016503040202', 'sha384'],
  ['608648016503040203', 'sha512'],
]);
const keyTypes: Readonly<Record<string, { readonly name: SignatureAlgorithm['keyType']; readonly goType: string }>> = {
  rsa: { name: 'RSA', goType: '*rsa.PublicKey' },
  ec: { name: 'ECDSA', goType: '*ecdsa.PublicKey' },
  ed25519: { name: 'Ed25519', goType: 'ed25519.PublicKey' },
};
const failures: Readonly<Record<SignatureAlgorithm['keyType'], string>> = {
  RSA: 'crypto/rsa: verification error',
  ECDSA: 'x509: ECDSA verification failure',
  Ed25519: 'x509: Ed25519 verification failure',
};

interface CertificateRequest {
  readonly signed: Buffer;
  readonly publicKey: Buffer;
  readonly algorithm: string;
  readonly pssHash: string | undefined;
  readonly signature: Buffer;
}

/** Parses a PKCS #10 certificate request as far as its signature needs. @throws Asn1Error */
function parse(der: Buffer): CertificateRequest {
  const request = readElement(der, sequence);
  if (request.rest.length > 0) throw new Asn1Error('asn1: syntax error: trailing data');
  const info = readElement(request.content, sequence);
  const version = readElement(info.content, integer);
  const subject = readElement(version.rest, sequence);
  const publicKey = readElement(subject.rest, sequence);
  const algorithm = readElement(info.rest, sequence);
  const oid = readElement(algorithm.content, objectIdentifier);
  const signature = readElement(algorithm.rest, bitString);
  const parameters = oid.rest.toString('hex');
  return {
    signed: info.whole,
    publicKey: publicKey.whole,
    algorithm: oid.content.toString('hex'),
    pssHash: [...pssHashes].find(([hash]) => parameters.includes(hash))?.[1],
    signature: signature.content.subarray(1),
  };
}

/** Returns a public key in DER (SubjectPublicKeyInfo); undefined if it is malformed. */
export function publicKeyOf(der: Buffer): KeyObject | undefined {
  try {
    return createPublicKey({ key: der, format: 'der', type: 'spki' });
  } catch {
    return undefined;
  }
}

function signatureFault({ signed, publicKey, algorithm, pssHash, signature }: CertificateRequest): string | undefined {
  const isPss = algorithm === pss && pssHash !== undefined;
  const known: SignatureAlgorithm | undefined = isPss ? { hash: pssHash, keyType: 'RSA' } : algorithms.get(algorithm);
  if (known === undefined) return 'x509: cannot verify signature: algorithm unimplemented';
  const key = publicKeyOf(publicKey);
  if (key === undefined) return 'x509: malformed public key';
  const own = keyTypes[key.asymmetricKeyType ?? ''];
  if (own?.name !== known.keyType)
    return `x509: signature algorithm specifies an ${known.keyType} public key, but have public key of type ${own?.goType ?? '<nil>'}`;
  const options = isPss ? { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_AUTO } : key;
  return verify(known.hash, signed, options, signature) ? undefined : failures[known.keyType];
}

/** Parses a PKCS #10 request in DER. Returns its public key, and why its signature is not by this key; undefined if it is no request. */
export function parseCertificationRequest(
  der: Buffer,
): { readonly key: KeyObject | undefined; readonly fault: string | undefined } | undefined {
  try {
    const request = parse(der);
    return { key: publicKeyOf(request.publicKey), fault: signatureFault(request) };
  } catch (error) {
    if (error instanceof Asn1Error) return undefined;
    throw error;
  }
}

/** Returns why `request`, a PEM file in base64, is not a PKCS #10 request that is signed by its own key; undefined if it is one. */
export function certificateRequestFault(request: string): string | undefined {
  const [block] = pemBlocks(request);
  if (block?.type !== 'CERTIFICATE REQUEST') return 'PEM block type must be CERTIFICATE REQUEST';
  try {
    return signatureFault(parse(block.bytes));
  } catch (error) {
    if (error instanceof Asn1Error) return error.message;
    throw error;
  }
}
