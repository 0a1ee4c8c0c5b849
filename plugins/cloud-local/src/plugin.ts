import { isLoopback } from '@oarlock/api/net/ip';
import { services } from '@oarlock/api/resources';
import { Informers } from '@oarlock/spi/client';
import { Cloud } from '@oarlock/spi/cloud';
import { Cluster } from '@oarlock/spi/cluster';
import { z } from 'zod';
import { AddressPool } from './address-pool.ts';
import { LocalLoadBalancers } from './local-load-balancers.ts';

/** The default range of addresses if the cluster's Services have loopback addresses. */
const ipv4Range = '127.111.0.0/24';
const farRange = '10.111.255.0/24';

const isRange = (text: string): boolean => {
  try {
    new AddressPool([text]).has('');
    return true;
  } catch {
    return false;
  }
};

/**
 * The cloud provider of a single machine. Services of type LoadBalancer get addresses of the configured ranges, to which the nodes' service proxies
 * accept traffic.
 */
export default Cloud.plugin({
  id: 'cloud-local',
  declares: { loadBalancers: true },
  config: z.strictObject({
    addresses: z.array(z.string().refine(isRange, 'a range such as 10.0.0.240/28 or 10.0.0.240-10.0.0.250')).min(1).max(64).optional(),
    /** The loadBalancerClass that this plugin serves, in addition to Services without a class. */
    class: z.string().min(1).max(253).default('oarlock.dev/local'),
  }),
  needs: { informers: Informers, facts: Cluster },
  create({ config, informers, facts }) {
    const near = isLoopback(facts.kubernetesServiceIP);
    const pool = new AddressPool(config.addresses ?? [facts.loopback?.loadBalancerCIDR ?? (near ? ipv4Range : farRange)]);
    return {
      name: 'local',
      loadBalancers: new LocalLoadBalancers({ pool, services: informers.forResource(services), class: config.class }),
    };
  },
});
