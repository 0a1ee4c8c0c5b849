/** The addresses of the link between the network of a node without root and its uplink. They exist in network namespaces only. */
export const nodeAddress = '198.51.100.2';
/** The router of the node: the relay, which has the network of the host behind it. Also the name server. */
export const gatewayAddress = '198.51.100.1';
/** The port of the relay at the gateway, to which the packet rules redirect all traffic. */
export const relayPort = 15_001;
/** The network namespace of the relay, below /run/netns in the mount namespace of the node. */
export const uplinkNamespace = 'uplink';
/** The network of the TAP device in the uplink namespace, of which pasta or slirp4netns is the other end. */
export const tapNetwork = '203.0.113.0/24';
export const tapGateway = '203.0.113.2';
export const tapName = 'tap0';
