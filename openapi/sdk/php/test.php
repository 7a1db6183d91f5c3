<?php
// What the layer guarantees, against a service that is simulated here.
declare(strict_types=1);

use GuzzleHttp\Exception\ConnectException;
use GuzzleHttp\Promise\Create;
use GuzzleHttp\Psr7\Response;
use Partner\Api\WalletApi;
use PartnerSdk\{FileTokenStore, LinkAgainException, LinkRefusedException, Pages, PartnerApp, TokenEndpointException, Tokens, Webhook, WebhookException};
use Psr\Http\Message\RequestInterface;

require '/usr/share/php/GuzzleHttp/autoload.php';
spl_autoload_register(function (string $class): void {
    foreach (['Partner\\' => 'generated/lib', 'PartnerSdk\\' => 'src'] as $space => $folder) {
        $file = __DIR__ . "/$folder/" . strtr(substr($class, strlen($space)), '\\', '/') . '.php';
        if (str_starts_with($class, $space) && is_file($file)) {
            require $file;
        }
    }
});
set_error_handler(function (int $level, string $message, string $file, int $line): never {
    throw new ErrorException($message, 0, $level, $file, $line);
});

function same(string $what, mixed $is, mixed $wanted): void
{
    if ($is !== $wanted) {
        throw new RuntimeException("$what: " . json_encode($is) . ', not ' . json_encode($wanted));
    }
}

/** @param class-string<Throwable> $class */
function thrown(string $class, callable $run): Throwable
{
    try {
        $run();
    } catch (Throwable $error) {
        for ($cause = $error; $cause !== null; $cause = $cause->getPrevious()) {
            if ($cause instanceof $class) {
                return $cause;
            }
        }
        throw $error;
    }
    throw new RuntimeException("$class was not thrown");
}

/** A service that rotates refresh tokens and stores its responses by key. $first are its first responses at the token endpoint or elsewhere. */
final class Service
{
    /** @var list<array{path: string, key: string, token: string}> */
    public array $asked = [];
    /** @var array<string, string> */
    public array $stored = [];

    /** @param array<string, list<mixed>> $first */
    public function __construct(public string $valid = 'rt', public array $first = [])
    {
    }

    public function __invoke(RequestInterface $request, array $options): GuzzleHttp\Promise\PromiseInterface
    {
        $path = $request->getUri()->getPath();
        $this->asked[] = ['path' => $path, 'key' => $request->getHeaderLine('Idempotency-Key'), 'token' => $request->getHeaderLine('Authorization')];
        $kind = $path === '/api/oauth/token' ? 'token' : 'api';
        $this->first[$kind] ??= [];
        $next = array_shift($this->first[$kind]);
        if ($next instanceof Response) {
            return Create::promiseFor($next);
        }
        $answer = $kind === 'token' ? $this->token($request) : new Response(200, ['Content-Type' => 'application/json'], '{"currency": "EUR", "availableCents": 1, "reservedCents": 0}');
        return $next === 'lost' ? Create::rejectionFor(new ConnectException('lost', $request)) : Create::promiseFor($answer);
    }

    private function token(RequestInterface $request): Response
    {
        parse_str((string) $request->getBody(), $form);
        $key = $request->getHeaderLine('Idempotency-Key');
        if (!isset($this->stored[$key])) {
            if (($form['refresh_token'] ?? $this->valid) !== $this->valid) {
                return new Response(400, [], '{"error": "invalid_grant", "error_description": "reused"}');
            }
            $n = count($this->asked);
            $this->valid = "rt_$n";
            $this->stored[$key] = json_encode(['access_token' => "at_$n", 'refresh_token' => $this->valid, 'expires_in' => 900, 'scope' => 'x']);
        }
        return new Response(200, [], $this->stored[$key]);
    }

    public function count(string $path): int
    {
        return count(array_filter($this->asked, fn (array $a): bool => $a['path'] === $path));
    }
}

$folder = sys_get_temp_dir() . '/partner-sdk-' . bin2hex(random_bytes(8));
$app = function (Service $service, ?Tokens $tokens = null) use ($folder): array {
    $store = new FileTokenStore($folder . '/' . bin2hex(random_bytes(8)));
    $store->update('c', fn (): ?Tokens => $tokens);
    return [new PartnerApp('https://api.example', 'app', 'sk', 'https://crm.example/back', $store, pauseMs: 1, handler: $service), $store];
};
$expired = new Tokens('old', time(), 'x', 'rt');
$valid = new Tokens('at', time() + 3600, 'x', 'rt');
$wallet = fn (PartnerApp $a): int => (new WalletApi($a->client('c'), $a->configuration()))->getWallet()->getAvailableCents();

// An expired token is refreshed once, and the new one is used.
$service = new Service();
[$a] = $app($service, $expired);
same('wallet', [$wallet($a), $wallet($a)], [1, 1]);
same('refreshes', $service->count('/api/oauth/token'), 1);
same('token', $service->asked[1]['token'], 'Bearer at_1');

// Two processes with one store refresh once: the second reads what the first stored.
[$a, $store] = $app($service = new Service(), $expired);
$late = new class ($store, $expired) implements PartnerSdk\TokenStore {
    public function __construct(private PartnerSdk\TokenStore $store, private ?Tokens $stale)
    {
    }

    public function read(string $link): ?Tokens
    {
        [$was, $this->stale] = [$this->stale, null];
        return $was ?? $this->store->read($link);
    }

    public function update(string $link, callable $change): ?Tokens
    {
        return $this->store->update($link, $change);
    }
};
$wallet($a);
$wallet(new PartnerApp('https://api.example', 'app', 'sk', 'https://crm.example/back', $late, pauseMs: 1, handler: $service));
same('refreshes of two processes', $service->count('/api/oauth/token'), 1);

// A lost response of a refresh is asked for again under its key.
[$a] = $app($service = new Service(first: ['token' => ['lost']]), $expired);
same('wallet', $wallet($a), 1);
same('refreshes', $service->count('/api/oauth/token'), 2);
same('key', $service->asked[0]['key'], $service->asked[1]['key']);

// A rejected token is refreshed and the request sent once more.
[$a] = $app($service = new Service(first: ['api' => [new Response(401)]]), $valid);
same('wallet', $wallet($a), 1);
same('refreshes', $service->count('/api/oauth/token'), 1);

// A rejected refresh forgets the link; wrong credentials of the application do not.
[$a, $store] = $app($service = new Service('another'), $expired);
thrown(LinkAgainException::class, fn () => $wallet($a));
thrown(LinkAgainException::class, fn () => $wallet($a));
same('refreshes', [$service->count('/api/oauth/token'), $store->read('c')], [1, null]);
[$a, $store] = $app(new Service(first: ['token' => [new Response(401, [], '{"error": "invalid_client"}')]]), $expired);
same('reason', thrown(TokenEndpointException::class, fn () => $wallet($a))->reason, 'invalid_client');
same('kept', $store->read('c')?->refreshToken, 'rt');
[$a] = $app(new Service(), new Tokens('old', time(), 'x'));
thrown(LinkAgainException::class, fn () => $wallet($a));

// 429, 503 and lost responses are retried under one key; nothing else is.
[$a] = $app($service = new Service(first: ['api' => [new Response(503), new Response(429, ['Retry-After' => '0']), 'lost']]), $valid);
same('status', $a->client('c')->post('https://api.example/api/v1/consultations', ['body' => '{}'])->getStatusCode(), 200);
same('tries', count($service->asked), 4);
same('keys', [count(array_unique(array_column($service->asked, 'key'))), $service->asked[0]['key'] !== ''], [1, true]);
[$a] = $app($service = new Service(first: ['api' => [new Response(503)]]), $valid);
same('status', $a->client('c')->post('https://api.example/api/v1/other', ['body' => '{}', 'http_errors' => false])->getStatusCode(), 503);
same('tries', count($service->asked), 1);
[$a] = $app($service = new Service(first: ['api' => [new Response(429, ['Retry-After' => '3600'])]]), $valid);
same('a long Retry-After', $a->client('c')->get('https://api.example/api/v1/wallet', ['http_errors' => false])->getStatusCode(), 429);
same('tries', count($service->asked), 1);

// Linking.
[$a, $store] = $app($service = new Service());
['url' => $url, 'state' => $state, 'codeVerifier' => $verifier] = $a->beginLink('profile:read offline_access');
parse_str((string) parse_url($url, PHP_URL_QUERY), $query);
same('challenge', $query['code_challenge'], rtrim(strtr(base64_encode(hash('sha256', $verifier, true)), '+/', '-_'), '='));
$back = fn (array $with): string => 'https://crm.example/back?' . http_build_query($with + ['state' => $state, 'iss' => 'https://api.example']);
foreach ([
    'invalid_state' => ['code' => 'x', 'state' => 'other'], 'invalid_issuer' => ['code' => 'x', 'iss' => 'https://evil.example'],
    'access_denied' => ['error' => 'access_denied'], 'invalid_request' => [],
] as $reason => $with) {
    same('reason', thrown(LinkRefusedException::class, fn () => $a->finishLink('c', $back($with), $state, $verifier))->reason, $reason);
}
same('scope', $a->finishLink('c', $back(['code' => 'x']), $state, $verifier)->scope, 'x');
same('wallet', $wallet($a), 1);
$a->unlink('c');
same('unlinked', [$service->count('/api/oauth/revoke'), $store->read('c')], [1, null]);

// Lists.
$page = fn (array $items, ?string $next): object => new class ($items, $next) {
    public function __construct(private array $items, private ?string $next)
    {
    }

    public function getItems(): array
    {
        return $this->items;
    }

    public function getNextCursor(): ?string
    {
        return $this->next;
    }
};
same('list', iterator_to_array(Pages::each(fn (?string $cursor) => $cursor === null ? $page([3, 2], 'next') : $page([1], null)), false), [3, 2, 1]);

// Webhooks.
$now = 1_780_000_000;
$body = '{"id":"evt_1","type":"webhook.ping","createdAt":"2026-06-01T08:00:00.000000Z","data":{}}';
$sign = fn (string $secret, int $at, string $body): string => "t=$at,v1=" . hash_hmac('sha256', "$at.$body", $secret);
foreach ([
    ['X-Service-Signature', $sign('new', $now, $body), $body, null], ['X-Service-Signature', $sign('old', $now, $body), $body, null],
    ['X-Service-Signature-Previous', $sign('old', $now, $body), $body, null], ['X-Service-Signature', $sign('other', $now, $body), $body, 'mismatch'],
    ['X-Service-Signature', $sign('new', $now, $body), "$body ", 'mismatch'], ['X-Service-Signature', $sign('new', $now - 300, $body), $body, 'expired'],
    ['X-Service-Signature', $sign('new', $now + 300, $body), $body, 'expired'], ['X-Service-Signature', $sign('new', $now - 299, $body), $body, null],
    ['X-Service-Signature', $sign('new', $now, $body) . "\n", $body, 'malformed'], ['X-Service-Signature', '', $body, 'malformed'],
    ['X-Service-Signature', $sign('new', $now, '{'), '{', 'malformed'],
] as [$name, $signature, $content, $reason]) {
    $read = fn (): Webhook => Webhook::read(['new', 'old'], [$name => $signature, 'X-Service-Sequence' => ['7'], 'X-Service-Test' => 'true'], $content, $now);
    if ($reason !== null) {
        same($signature, thrown(WebhookException::class, $read)->reason, $reason);
        continue;
    }
    $webhook = $read();
    same($signature, [$webhook->id, $webhook->event instanceof Partner\Model\WebhookPingEvent, $webhook->sequence, $webhook->test], ['evt_1', true, 7, true]);
}
$newer = '{"id":"evt_2","type":"consultation.invented","data":{}}';
same('newer', Webhook::read(['s'], ['x-service-signature' => $sign('s', $now, $newer)], $newer, $now)->event, null);

array_map('unlink', glob("$folder/*/*"));
array_map('rmdir', glob("$folder/*"));
rmdir($folder);
echo "the layer passes\n";
