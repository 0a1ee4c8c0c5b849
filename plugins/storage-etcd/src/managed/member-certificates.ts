import type { StorageServer } from '@oarlock/spi/storage-server';
import type { MemberTls } from './member-program.ts';

/** The files with which this server connects to the members. */
export interface ClientFiles {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}

/** Writes the certificates of a server, unless they are there and not near their end. etcd reads them for each connection. */
export async function issueCertificates(server: StorageServer): Promise<{ readonly client: ClientFiles; readonly member: MemberTls }> {
  const { caFile, issue } = await server.openAuthority();
  const names = { dnsNames: ['localhost', server.name.toLowerCase()], ipAddresses: [server.address] };
  // etcd's gateway connects to its own server with the serving certificate
  const usages = ['server', 'client'] as const;
  const [serving, peer, client] = await Promise.all([
    issue('server', { commonName: server.name, ...names, usages }),
    issue('peer', { commonName: server.name, ...names, usages }),
    issue('client', { commonName: 'oarlock-storage-etcd', usages: ['client'] }),
  ]);
  return { client: { caFile, ...client }, member: { caFile, server: serving, peer } };
}
