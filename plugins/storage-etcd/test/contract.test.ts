import { etcdContract } from './support/etcd-contract.ts';
import { EtcdServer } from './support/etcd-server.ts';

etcdContract('storage-etcd', 20, async () => ({ server: await EtcdServer.start() }));
