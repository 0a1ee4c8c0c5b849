import { etcdContract } from './support/etcd-contract.ts';
import { EtcdServer } from './support/etcd-server.ts';
import { makeTlsFiles } from './support/tls-files.ts';

etcdContract('storage-etcd over TLS, with client certificates', 5, async () => {
  const tls = await makeTlsFiles();
  return { server: await EtcdServer.start({ tls: tls.server }), options: tls.client, remove: tls.remove };
});
