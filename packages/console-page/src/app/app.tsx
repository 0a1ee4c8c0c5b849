import { useEffect, useMemo, useState } from 'preact/hooks';
import { ApiClient, errorText } from '../api/client.ts';
import { discoverResources, type ApiResource } from '../api/resources.ts';
import { readFeatures, type ServerFeatures } from '../api/server-features.ts';
import { ErrorMessage } from '../components/error-message.tsx';
import { Toasts, type Toast } from '../components/toasts.tsx';
import { text } from '../text/en.ts';
import { views } from '../views/registry.ts';
import { SignIn } from '../views/sign-in/sign-in.tsx';
import { App as AppContextProvider, type AppContext, type ToastKind } from './context.ts';
import { useLatest } from './hooks.ts';
import { loadAhead } from './load-ahead.ts';
import { Frame } from './frame.tsx';
import { parseLocation } from './router.ts';
import { currentSession, signInBy, type SessionInfo } from './session.ts';
import { onSignInElsewhere } from './sign-in-elsewhere.ts';
import { keepPosition, signInAddress, takePosition, type SignInAddress } from './sign-in-address.ts';

const maxToasts = 5;
const toastMs = 6_000;

/** Returns how the address signs in, and removes it from the address and the history. The page continues where it was. */
function takeSignInAddress(): SignInAddress | undefined {
  const address = signInAddress(location);
  if (address === undefined) return undefined;
  history.replaceState(null, '', `${location.pathname}${takePosition()}`);
  // a replaced address causes no event by itself
  dispatchEvent(new Event('hashchange'));
  return address;
}

interface State {
  readonly session?: SessionInfo;
  readonly resources?: readonly ApiResource[];
  readonly features?: ServerFeatures;
  readonly error?: unknown;
  /** Why the user has to sign in again. */
  readonly notice?: string;
  /** Where the user who has signed out can sign out at the OIDC provider. */
  readonly logoutUrl?: string;
}

/** Returns a session without its user. */
const signedOut = ({ user: _user, ...rest }: SessionInfo): SessionInfo => rest;

/** Signs in if the address is a sign-in link, and shows the page when the session and the resources are known. */
export function App() {
  const client = useMemo(() => new ApiClient(), []);
  const [state, setState] = useState<State>({});
  const [toasts, setToasts] = useState<readonly Toast[]>([]);
  const [namespace, setNamespace] = useState('');
  const toast = (kind: ToastKind, message: string) => {
    const id = performance.now() + Math.random();
    setToasts((all) => [...all, { id, kind, message }].slice(-maxToasts));
    if (kind !== 'error') setTimeout(() => closeToast(id), toastMs);
  };
  const closeToast = (id: number) => setToasts((all) => all.filter((each) => each.id !== id));
  const readServer = () => Promise.all([discoverResources(client), readFeatures(client)]);
  const enter = async (session: SessionInfo, ahead?: ReturnType<typeof readServer>) => {
    try {
      const [resources, features] = await (ahead ?? readServer());
      setState({ session, resources, features });
    } catch (error) {
      setState({ session, error });
    }
  };
  const begin = async () => {
    const address = takeSignInAddress();
    if (address === undefined) loadAhead(client, parseLocation(location.hash), views);
    // with the session of the browser, if it has one
    const ahead = address === undefined ? readServer() : undefined;
    ahead?.catch(() => undefined); // reported if the session is valid
    let current: SessionInfo = {};
    try {
      current = await currentSession(client);
      const session = address === undefined ? current : { ...current, ...(await signInBy(client, address, current)) };
      if (session.user === undefined) setState({ session });
      else await enter(session, ahead);
    } catch (error) {
      if (address === undefined) return setState({ error });
      const failed = 'link' in address ? text.signIn.linkFailed : text.signIn.oidcFailed;
      const notice = `${failed}: ${errorText(error)}`;
      if (current.user === undefined) return setState({ session: current, notice });
      // an address that anyone can write ends no session
      await enter(current);
      toast('error', notice);
    }
  };
  const refreshResources = useLatest(() => {
    discoverResources(client).then(
      (found) => setState((last) => ({ ...last, resources: found })),
      (failure: unknown) => toast('error', errorText(failure)),
    );
  });
  useEffect(() => {
    client.onUnauthorized = () => setState((last) => (last.session?.user === undefined ? last : { session: signedOut(last.session), notice: text.signIn.ended }));
    void begin();
    // a link that is opened while the page is shown changes the fragment only
    const onHashChange = ({ oldURL }: HashChangeEvent) => {
      if (!parseLocation(location.hash).path.startsWith('/sign-in/')) return;
      keepPosition(new URL(oldURL).hash);
      void begin();
    };
    addEventListener('hashchange', onHashChange);
    return () => removeEventListener('hashchange', onHashChange);
  }, []);
  const isSignedOut = state.session !== undefined && state.session.user === undefined;
  useEffect(() => (isSignedOut ? onSignInElsewhere(() => void begin()) : undefined), [isSignedOut]);

  const { session, resources, features, error, notice, logoutUrl } = state;
  if (error !== undefined) return <main class="alone"><ErrorMessage error={error} onRetry={() => location.reload()} /></main>;
  if (session === undefined) return <main class="alone" aria-busy="true"><p>{text.connection.connecting}</p></main>;
  if (session.user === undefined)
    return <SignIn client={client} onlyLink={session.signIn === 'link'} {...(session.oidc && { provider: session.oidc.name })} {...(notice !== undefined && { notice })} {...(logoutUrl !== undefined && { logoutUrl })} onSignedIn={(signedIn) => void enter({ ...session, ...signedIn })} />;
  if (resources === undefined || features === undefined) return <main class="alone" aria-busy="true"><p>{text.connection.connecting}</p></main>;
  const context: AppContext = {
    client,
    session,
    resources,
    features,
    namespace,
    setNamespace,
    refreshResources,
    toast,
  };
  return (
    <AppContextProvider.Provider value={context}>
      <Frame onSignedOut={(result) => setState({ session: signedOut(session), ...(result.logoutUrl !== undefined && { logoutUrl: result.logoutUrl }) })} />
      <Toasts toasts={toasts} onClose={closeToast} />
    </AppContextProvider.Provider>
  );
}
