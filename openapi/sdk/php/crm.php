<?php
// A CRM with the client that openapi-generator generates.
declare(strict_types=1);

use Partner\Api\ConsultationsApi;
use Partner\Api\OAuthApi;
use Partner\Api\WalletApi;
use Partner\ApiException;
use Partner\Configuration;
use Partner\Model;
use Partner\ObjectSerializer;

require '/usr/share/php/GuzzleHttp/autoload.php';
spl_autoload_register(function (string $class): void {
    if (str_starts_with($class, 'Partner\\')) {
        require __DIR__ . '/generated/lib/' . strtr(substr($class, strlen('Partner\\')), '\\', '/') . '.php';
    }
});
set_error_handler(function (int $level, string $message, string $file, int $line): never {
    throw new ErrorException($message, 0, $level, $file, $line);
});

/** Says what to tell the client's adviser, for every error of the operation. */
function explain(ApiException $error): string
{
    $answer = $error->getResponseObject();
    return match (true) {
        $answer instanceof Model\CreateConsultationConflictError => match ($answer->getCode()) {
            Model\CreateConsultationConflictError::CODE_INSUFFICIENT_FUNDS => 'top up at ' . $answer->getActionUrl(),
            Model\CreateConsultationConflictError::CODE_PHONE_REQUIRED => 'verify a phone number at ' . $answer->getActionUrl(),
            Model\CreateConsultationConflictError::CODE_IDEMPOTENCY_CONFLICT => 'the key was used for something else',
            Model\CreateConsultationConflictError::CODE_IDEMPOTENCY_IN_PROGRESS => 'the first try is still under way',
        },
        $answer instanceof Model\ValidationError => implode(', ', array_map(
            fn (Model\Issue $issue): string => $issue->getPath() . ': ' . $issue->getCode(),
            $answer->getIssues()
        )),
        $answer instanceof Model\CreateConsultationBadRequestError => match ($answer->getCode()) {
            Model\CreateConsultationBadRequestError::CODE_IDEMPOTENCY_KEY_REQUIRED => 'our fault: no key',
            Model\CreateConsultationBadRequestError::CODE_INVALID_REQUEST => 'our fault: malformed',
        },
        $answer instanceof Model\UnauthorizedError, $answer instanceof Model\InsufficientScopeError => 'link again',
        $answer instanceof Model\RateLimitedError, $answer instanceof Model\InternalError, $answer instanceof Model\UnavailableError => 'later',
    };
}

/** Reads a webhook as the class of its type. */
function event(string $body): Model\ModelInterface
{
    $data = json_decode($body, false, 512, JSON_THROW_ON_ERROR);
    $name = str_replace(' ', '', ucwords(strtr($data->type, '._', '  '))) . 'Event';
    return ObjectSerializer::deserialize($data, '\\Partner\\Model\\' . $name);
}

/** Says a line for the timeline of a consultation. An event without a case throws. */
function describe(Model\ModelInterface $event): string
{
    return match ($event::class) {
        Model\ConsultationCreatedEvent::class => "created for {$event->getData()->getPriceCents()} cents",
        Model\ConsultationPaymentAuthorizedEvent::class => 'money reserved',
        Model\ConsultationMatchingEvent::class => 'looking for a lawyer',
        Model\ConsultationAssignedEvent::class => 'a lawyer has it',
        Model\ConsultationCallStartedEvent::class => 'in the call',
        Model\ConsultationCallEndedEvent::class => "talked for {$event->getData()->getDurationSec()} s",
        Model\ConsultationCompletedEvent::class => 'done',
        Model\ConsultationNoteAvailableEvent::class => 'there is a note',
        Model\ConsultationPendingCallbackEvent::class => "called back by {$event->getData()->getCallbackDueAt()->format(DATE_ATOM)}",
        Model\ConsultationCancelledEvent::class => "cancelled: {$event->getData()->getEndReason()}",
        Model\ConsultationRefundedEvent::class => "{$event->getData()->getRefundedCents()} cents are back",
        Model\ConsultationExpiredEvent::class => "expired: {$event->getData()->getEndReason()}",
        Model\WebhookPingEvent::class => 'the service tries our address',
    };
}

function ask(string $line): string
{
    echo $line, "\n";
    $answer = fgets(STDIN);
    return $answer === false ? throw new RuntimeException("nobody answered $line") : rtrim($answer, "\n");
}

function expect(string $what, mixed $is, mixed $wanted): void
{
    if ($is !== $wanted) {
        throw new RuntimeException("$what is " . json_encode($is) . ', not ' . json_encode($wanted));
    }
}

function refused(callable $call): ApiException
{
    try {
        $call();
    } catch (ApiException $e) {
        return $e;
    }
    throw new RuntimeException('it was not refused');
}

/** Reads until the answer is yes; gives up after a minute. */
function until(string $what, callable $read): void
{
    for ($end = microtime(true) + 60; !$read(); usleep(250_000)) {
        if (microtime(true) > $end) {
            throw new RuntimeException("waited a minute for $what");
        }
    }
}

function random(): string
{
    return rtrim(strtr(base64_encode(random_bytes(32)), '+/', '-_'), '=');
}

$redirect = getenv('PARTNER_REDIRECT_URI');
$id = getenv('PARTNER_CLIENT_ID');
$secret = getenv('PARTNER_CLIENT_SECRET');
$verifier = random();
$state = random();
parse_str(parse_url(ask('OPEN ' . getenv('PARTNER_AUTHORIZE_URL') . '?' . http_build_query([
    'response_type' => 'code', 'client_id' => $id, 'redirect_uri' => $redirect, 'state' => $state,
    'scope' => 'profile:read wallet:read wallet:topup consultations:read consultations:write notes:read offline_access',
    'code_challenge' => rtrim(strtr(base64_encode(hash('sha256', $verifier, true)), '+/', '-_'), '='), 'code_challenge_method' => 'S256',
])), PHP_URL_QUERY), $back);
expect('state', $back['state'], $state);

$config = (new Configuration())->setHost(getenv('PARTNER_BASE_URL'));
$oauth = new OAuthApi(null, $config);
$tokens = $oauth->issueToken('authorization_code', $id, $secret, random(), $back['code'], $redirect, $verifier);
$config->setAccessToken($tokens->getAccessToken());
$consultations = new ConsultationsApi(null, $config);
$wallet = new WalletApi(null, $config);
$request = fn (string $ref): Model\CreateConsultationRequest => new Model\CreateConsultationRequest([
    'competence' => 'HOUSING', 'subject' => 'Deposit not returned', 'withdrawal_waiver_acknowledged' => true, 'external_ref' => $ref,
]);

$key = random();
expect('told to top up', str_starts_with(explain(refused(fn () => $consultations->createConsultation($key, $request('php-1')))), 'top up at http'), true);

$page = $wallet->createTopupSession(new Model\CreateTopupSessionRequest(['amount_cents' => 4000, 'return_url' => $redirect]));
ask('OPEN ' . $page->getCheckoutUrl());
until('the money', fn () => $wallet->getWallet()->getAvailableCents() === 4000);

$made = $consultations->createConsultation($key, $request('php-1'));
[$again, , $headers] = $consultations->createConsultationWithHttpInfo($key, $request('php-1'));
expect('the consultation of the same key', $again->getId(), $made->getId());
expect('replayed', array_change_key_case($headers)['idempotent-replayed'], ['true']);
$second = $consultations->createConsultation(random(), $request('php-2'));
$listed = $consultations->listConsultations(limit: 2)->getItems();
expect('the list, newest first', array_map(fn (Model\Consultation $c) => $c->getId(), $listed), [$second->getId(), $made->getId()]);
expect('status', $consultations->cancelConsultation($second->getId())->getStatus(), Model\ConsultationStatus::CANCELLED);

until('the call', fn () => $consultations->getConsultation($made->getId())->getStatus() === Model\ConsultationStatus::COMPLETED);
expect('the note is of', $consultations->getConsultationNote($made->getId())->getConsultationId(), $made->getId());
expect('cancelled too late', refused(fn () => $consultations->cancelConsultation($made->getId()))->getResponseObject()->getCode(), Model\NotCancellableError::CODE_NOT_CANCELLABLE);
expect('what nobody has', refused(fn () => $consultations->getConsultation('con_test_nobody'))->getResponseObject()->getCode(), Model\NotFoundError::CODE_NOT_FOUND);
expect('what to do', explain(refused(fn () => $consultations->createConsultation(random(), $request('php-3')->setCompetence('NONE')))), 'competence: not_in_catalog');

foreach (json_decode(ask('EVENTS'), true, 512, JSON_THROW_ON_ERROR) as $received) {
    echo 'EVENT ', describe(event($received['body'])), "\n";
}
try {
    describe(new Model\Wallet());
    throw new RuntimeException('a match without the case answers');
} catch (UnhandledMatchError) {
}

$fresh = $oauth->issueToken('refresh_token', $id, $secret, random(), refresh_token: $tokens->getRefreshToken());
$oauth->revokeToken($fresh->getRefreshToken(), $id, $secret);
expect('after the disconnection', refused(fn () => $wallet->getWallet())->getCode(), 401);
echo "DONE\n";
