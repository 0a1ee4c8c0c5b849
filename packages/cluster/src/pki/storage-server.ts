import { randomBytes, X509Certificate } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { CertificateRequest, ClusterFacts, KeyPair } from '@oarlock/spi/cluster';
import type { CertificateFiles, StorageAuthority, StorageProcess, StorageServer } from '@oarlock/spi/storage-server';
import type { ClusterFile } from '../cluster-file/cluster-file.ts';
import { certificateDays } from '../cluster-file/certificate-validity.ts';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { completeInterruptedUse, openAuthority, readPair, stepAuthority, writePair, type AuthorityStep } from './authorities.ts';
import { selfSigned } from './certificate-writer.ts';
import { certificatesOf } from './ca-hash.ts';
import { isUsable, issuePair, newKey } from './key-pair.ts';

/** Directory of the CA of the storage's members and of this server's certificates of that CA, in the data directory. */
export const storagePkiDirectory = join('pki', 'etcd');

const authorityTitle = 'etcd-ca';

/**
 * Takes a step of the rotation of the members' CA in a directory with the files of that CA alone. @throws AuthorityError if the step is not possible now
 */
export function rotateStorageAuthority(directory: string, step: AuthorityStep): Promise<void> {
  // two CAs with the same name would be hard to distinguish
  const make = () => selfSigned(`${authorityTitle}-${randomBytes(4).toString('hex')}`, newKey());
  return stepAuthority(step, { directory, name: 'ca', command: authorityTitle, make });
}

/** What determines the names and the certificates of a server. */
interface ServerPlan {
  readonly nodeName: string;
  readonly facts: ClusterFacts;
  readonly file: Pick<ClusterFile, 'spec'>;
}

/** The storage server of a process, and the program of its storage, which runs until `stop`. */
export class ProcessStorageServer implements StorageServer {
  readonly name: string;
  readonly cluster: string;
  readonly address: string;
  readonly #directory: string;
  readonly #days: number | undefined;
  readonly #certificates = new Map<string, string>();
  #program: Promise<StorageProcess> | undefined;

  constructor({ nodeName, facts, file }: ServerPlan, dataDir: string) {
    this.name = nodeName;
    this.cluster = facts.name;
    this.address = new URL(facts.serverUrl).hostname.replace(/^\[|\]$/g, '');
    this.#directory = join(dataDir, storagePkiDirectory);
    this.#days = certificateDays(file.spec);
  }

  async openAuthority(): Promise<StorageAuthority> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    // the storage with the record that has the complete files cannot be opened before
    await completeInterruptedUse(this.#directory, 'ca');
    const { signing, bundle } = await openAuthority(this.#directory, 'ca', () => selfSigned(authorityTitle, newKey()));
    return {
      signing: signing.certificate,
      caFile: await this.#writeTrusted(bundle),
      issue: (name, request) =>
        this.#issue(name, { ca: signing, request: { ...request, ...(this.#days !== undefined && { days: this.#days }) } }),
    };
  }

  /** Writes the trusted CAs in an order that does not depend on which of them signs. */
  async #writeTrusted(bundle: string): Promise<string> {
    const file = join(this.#directory, 'trusted.crt');
    const text = `${[...certificatesOf(bundle)].sort().join('\n')}\n`;
    if ((await readIfExists(file)) !== text) await writeAtomic(file, text);
    return file;
  }

  /** The certificates of the CA and of the members and clients of this server, PEM, by the names of their files. */
  get certificates(): ReadonlyMap<string, string> {
    return this.#certificates;
  }

  async #issue(name: string, issue: Issue): Promise<CertificateFiles> {
    const files = await issueFiles(this.#directory, name, issue);
    this.#certificates.set('etcd-ca', issue.ca.certificate).set(`etcd-${name}`, files.certificate);
    return files;
  }

  async run<T extends StorageProcess>(start: () => Promise<T>): Promise<T> {
    if (this.#program === undefined) {
      const started = start();
      this.#program = started;
      started.catch(() => {
        this.#program = undefined;
      });
    }
    // the plugin of a storage starts one kind of program
    return (await this.#program) as T;
  }

  /** Ends the program of the storage, if it runs. */
  async stop(): Promise<void> {
    const program = await this.#program?.catch(() => undefined); // a program that could not start has ended
    this.#program = undefined;
    await program?.stop();
  }
}

interface Issue {
  readonly ca: KeyPair;
  readonly request: CertificateRequest;
}

async function issueFiles(directory: string, name: string, issue: Issue): Promise<CertificateFiles & { readonly certificate: string }> {
  let pair = await readPair(directory, name);
  if (pair === undefined || !isUsable(pair) || !isFor(pair, issue)) {
    pair = issuePair(issue.ca, issue.request);
    await writePair(directory, name, pair);
  }
  return { certFile: join(directory, `${name}.crt`), keyFile: join(directory, `${name}.key`), certificate: pair.certificate };
}

/** Returns true if this CA issued the certificate for the requested names and addresses. */
function isFor({ certificate }: KeyPair, { ca, request }: Issue): boolean {
  const parsed = new X509Certificate(certificate);
  return (
    parsed.verify(new X509Certificate(ca.certificate).publicKey) &&
    (request.dnsNames ?? []).every((name) => parsed.checkHost(name) !== undefined) &&
    (request.ipAddresses ?? []).every((address) => parsed.checkIP(address) !== undefined)
  );
}
