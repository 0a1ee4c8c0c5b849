import { Machine } from '../../harness/machine.ts';
import { cronJobs } from './cron-jobs.ts';
import { daemonSets } from './daemon-sets.ts';
import { deployments } from './deployments.ts';
import { disruptions } from './disruptions.ts';
import { jobs } from './jobs.ts';
import { replicas } from './replicas.ts';
import { statefulSets } from './stateful-sets.ts';
import { workbench } from './workbench.ts';

// one cluster for all behaviors; they run concurrently, each in its own namespace
const bench = workbench(Machine.use());
cronJobs(bench);
deployments(bench);
replicas(bench);
statefulSets(bench);
daemonSets(bench);
jobs(bench);
disruptions(bench);
