import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as x509 from '@peculiar/x509';

export interface TlsPaths {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const day = 24 * 60 * 60 * 1000;

/** Creates a CA with a server certificate for 127.0.0.1 and client certificates, as files. */
export async function makeTlsFiles(): Promise<{ server: TlsPaths; client: TlsPaths; stranger: TlsPaths; remove(): Promise<void> }> {
  const crypto = webcrypto;
  x509.cryptoProvider.set(crypto as never);
  const dir = await mkdtemp(join(tmpdir(), 'oarlock-tls-'));
  const dates = { notBefore: new Date(Date.now() - day), notAfter: new Date(Date.now() + day) };
  const newKeys = () => crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const newAuthority = async (name: string) => {
    const keys = await newKeys();
    const certificate = await x509.X509CertificateGenerator.createSelfSigned({
      name: `CN=${name}`,
      keys,
      signingAlgorithm: algorithm,
      serialNumber: '01',
      ...dates,
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.digitalSignature, true),
      ],
    });
    const file = join(dir, `${name}.crt`);
    await writeFile(file, certificate.toString('pem'));
    return { name, keys, file };
  };
  const authority = await newAuthority('test-ca');
  const other = await newAuthority('other-ca');
  const issue = async (name: string, signer: typeof authority): Promise<TlsPaths> => {
    const keys = await newKeys();
    const certificate = await x509.X509CertificateGenerator.create({
      subject: `CN=${name}`,
      issuer: `CN=${signer.name}`,
      publicKey: keys.publicKey,
      signingKey: signer.keys.privateKey,
      signingAlgorithm: algorithm,
      serialNumber: '02',
      ...dates,
      extensions: [
        new x509.SubjectAlternativeNameExtension([{ type: 'ip', value: '127.0.0.1' }]),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth]),
      ],
    });
    const [certFile, keyFile] = [join(dir, `${name}.crt`), join(dir, `${name}.key`)];
    await writeFile(certFile, certificate.toString('pem'));
    await writeFile(keyFile, x509.PemConverter.encode(await crypto.subtle.exportKey('pkcs8', keys.privateKey), 'PRIVATE KEY'), {
      mode: 0o600,
    });
    return { caFile: authority.file, certFile, keyFile };
  };
  return {
    server: await issue('server', authority),
    client: await issue('client', authority),
    stranger: await issue('stranger', other),
    remove: () => rm(dir, { recursive: true, force: true }),
  };
}
