import { createHash } from 'node:crypto';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { StorageServer } from '@oarlock/spi/storage-server';
import type { MemberTls } from './member-program.ts';

/** The files with which this server connects to the members. */
export interface ClientFiles {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}

interface IssuedCertificates {
  readonly client: ClientFiles;
  readonly member: MemberTls;
  readonly signing: string;
}

const trustArgument = '--trusted-ca-file=';
const trustFile = /^trusted-[0-9a-f]{16}\.crt$/;

/** The certificates of a server's member and of its clients, and the CAs that they trust. */
export class MemberCertificates {
  readonly #server: StorageServer;
  readonly #directory: string;
  #issued: IssuedCertificates | undefined;
  #issuing: Promise<unknown> = Promise.resolve();

  /** @param directory of the files of trusted CAs for the program */
  constructor(server: StorageServer, directory: string) {
    this.#server = server;
    this.#directory = directory;
  }

  get client(): ClientFiles {
    return this.#current.client;
  }
  get member(): MemberTls {
    return this.#current.member;
  }
  /** The CA (PEM) that issued the certificates. */
  get signing(): string {
    return this.#current.signing;
  }
  get #current(): IssuedCertificates {
    if (this.#issued === undefined) throw new Error('the etcd member has not started');
    return this.#issued;
  }

  /**
   * Writes the certificates, unless they are there, of the signing CA, and not near their end. etcd reads certificates for each connection, and trusted CAs
   * only when it starts.
   */
  issue(): Promise<void> {
    // concurrent calls would mix keys and certificates of different pairs
    const issuing = this.#issuing.then(() => this.#issue());
    this.#issuing = issuing.catch(() => undefined); // the caller already receives the rejection
    return issuing;
  }

  async #issue(): Promise<void> {
    const server = this.#server;
    const { caFile, signing, issue } = await server.openAuthority();
    const names = { dnsNames: ['localhost', server.name.toLowerCase()], ipAddresses: [server.address] };
    // etcd's gateway connects to its own server with the serving certificate
    const usages = ['server', 'client'] as const;
    const [serving, peer, client] = await Promise.all([
      issue('server', { commonName: server.name, ...names, usages }),
      issue('peer', { commonName: server.name, ...names, usages }),
      issue('client', { commonName: 'oarlock-storage-etcd', usages: ['client'] }),
    ]);
    const member = { caFile: await this.#writeTrusted(caFile), server: serving, peer };
    this.#issued = { client: { caFile, ...client }, member, signing };
  }

  /** Copies the trusted CAs to a file whose name changes with them, so that the command line of a program names the CAs that the program has loaded. */
  async #writeTrusted(caFile: string): Promise<string> {
    const trusted = await readFile(caFile, 'utf8');
    const file = join(this.#directory, `trusted-${createHash('sha256').update(trusted).digest('hex').slice(0, 16)}.crt`);
    if ((await readIfExists(file)) !== trusted) await writeAtomic(file, trusted);
    return file;
  }

  /** Returns true if a program with a command line has loaded the trusted CAs as they are now. */
  isTrustLoadedBy(command: readonly string[]): boolean {
    return command.includes(`${trustArgument}${this.member.caFile}`);
  }

  /** Returns the CAs (PEM) that a program with a command line trusts; empty if they are unknown, as of a program that an earlier version has started. */
  async trustedBy(command: readonly string[]): Promise<string> {
    const file = command.find((argument) => argument.startsWith(trustArgument))?.slice(trustArgument.length) ?? '';
    const name = file.slice(this.#directory.length + 1);
    return file.startsWith(`${this.#directory}/`) && trustFile.test(name) ? ((await readIfExists(file)) ?? '') : '';
  }

  /** Returns false if a program with a command line certainly rejects the certificates, because it does not trust their CA. */
  async areAcceptedBy(command: readonly string[]): Promise<boolean> {
    const trusted = await this.trustedBy(command);
    return trusted === '' || trusted.includes(this.signing.trim());
  }

  /** Removes the files of trusted CAs that are not those of now. */
  async removeFormerTrust(): Promise<void> {
    for (const name of await readdir(this.#directory))
      if (trustFile.test(name) && join(this.#directory, name) !== this.member.caFile)
        await rm(join(this.#directory, name), { force: true });
  }
}
