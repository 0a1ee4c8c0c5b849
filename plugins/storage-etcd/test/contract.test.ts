import { etcdContract } from './etcd-contract.ts';
import { EtcdServer } from './etcd-server.ts';

etcdContract('storage-etcd', 20, async () => ({ server: await EtcdServer.start() }));
